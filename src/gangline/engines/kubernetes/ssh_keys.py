"""Makes an Ed25519 key pair in the files OpenSSH reads: one per MPI job, by which its launcher logs in to its workers.

Written out here because nothing else in Gangline needs cryptography, and a controller must not depend on ``ssh-keygen``
being in its image. Only the public key is derived (RFC 8032); nothing is ever signed here.
"""

import base64
import hashlib
import secrets
import struct

_PRIME = 2**255 - 19
_D = -121665 * pow(121666, _PRIME - 2, _PRIME) % _PRIME
_BASE_Y = 4 * pow(5, _PRIME - 2, _PRIME) % _PRIME
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_SEED_BYTES = 32
_KIND = b"ssh-ed25519"
_LINE = 70

_Point = tuple[int, int, int, int]
"""A point of the curve in extended coordinates."""


def new_key_pair(comment: str = "gangline") -> tuple[str, str]:
    """Return a new private key and its public key, as the text of ``id_ed25519`` and of ``id_ed25519.pub``."""
    seed = secrets.token_bytes(_SEED_BYTES)
    public = public_key(seed)
    line = _text(_KIND) + _text(public)
    return _private_file(seed, public, line, comment), f"{_KIND.decode()} {_base64(line)} {comment}\n"


def public_key(seed: bytes) -> bytes:
    """Derive the public key of a private one."""
    digest = bytearray(hashlib.sha512(seed).digest()[:_SEED_BYTES])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    x, y, z, _ = _times(int.from_bytes(digest, "little"), (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _PRIME))
    inverse = pow(z, _PRIME - 2, _PRIME)
    x, y = x * inverse % _PRIME, y * inverse % _PRIME
    return (y | (x & 1) << 255).to_bytes(_SEED_BYTES, "little")


def _times(number: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = _plus(result, point)
        point = _plus(point, point)
        number >>= 1
    return result


def _plus(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _PRIME
    b = (one[1] + one[0]) * (other[1] + other[0]) % _PRIME
    c = 2 * one[3] * other[3] * _D % _PRIME
    d = 2 * one[2] * other[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _private_file(seed: bytes, public: bytes, line: bytes, comment: str) -> str:
    check = secrets.token_bytes(4)
    body = check + check + _text(_KIND) + _text(public) + _text(seed + public) + _text(comment.encode())
    body += bytes(range(1, 1 + -len(body) % 8))
    whole = b"openssh-key-v1\0" + _text(b"none") + _text(b"none") + _text(b"") + struct.pack(">I", 1)
    encoded = _base64(whole + _text(line) + _text(body))
    lines = [encoded[start : start + _LINE] for start in range(0, len(encoded), _LINE)]
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def _text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
