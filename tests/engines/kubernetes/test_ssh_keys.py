"""Key pairs that OpenSSH accepts."""

import base64

import pytest

from gangline.engines.kubernetes.ssh_keys import new_key_pair, public_key

RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
]


@pytest.mark.parametrize(("seed", "want"), RFC_8032, ids=["first", "second"])
def test_public_keys_are_those_of_the_standard(seed: str, want: str) -> None:
    assert public_key(bytes.fromhex(seed)).hex() == want


def test_the_private_file_holds_the_public_key_it_is_published_with() -> None:
    private, public = new_key_pair("job")
    kind, encoded, comment = public.split()
    body = base64.b64decode("".join(private.splitlines()[1:-1]))
    assert (kind, comment) == ("ssh-ed25519", "job")
    assert body.startswith(b"openssh-key-v1\0")
    assert base64.b64decode(encoded) in body
    assert new_key_pair() != new_key_pair()
