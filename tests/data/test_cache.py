"""The cache of a node: by content, by tenant, bounded, cleaned by age of use."""

import hashlib
import os
from pathlib import Path

import pytest

from gangline.data.cache import Cache


def fetched(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def keep(cache: Cache, folder: Path, identity: str, content: bytes, used: float = 0.0) -> None:
    cache.put(identity, fetched(folder / "source", content))
    os.utime(cache.folder / "content" / hashlib.sha256(content).hexdigest(), (used, used))


def test_what_was_kept_is_copied_out_and_a_change_of_the_copy_stays_in_the_copy(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", "one", 1 << 20)
    keep(cache, tmp_path, "a", b"hello")
    assert cache.get("a", tmp_path / "copy")
    (tmp_path / "copy").write_bytes(b"other")
    assert cache.get("a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"hello"
    assert not cache.get("b", tmp_path / "nothing")


def test_the_same_content_at_two_addresses_is_kept_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", "one", 1 << 20)
    keep(cache, tmp_path, "a", b"hello")
    keep(cache, tmp_path, "b", b"hello")
    assert len(list((cache.folder / "content").iterdir())) == 1
    assert cache.get("b", tmp_path / "copy")


@pytest.mark.parametrize("tenant", ["two", "../one", "one/", "."])
def test_one_tenant_has_nothing_of_another(tmp_path: Path, tenant: str) -> None:
    keep(Cache(tmp_path / "cache", "one", 1 << 20), tmp_path, "a", b"hello")
    other = Cache(tmp_path / "cache", tenant, 1 << 20)
    assert not other.get("a", tmp_path / "copy")
    assert other.folder.parent == tmp_path / "cache"
    assert other.folder != tmp_path / "cache" / "one"


def test_what_was_not_used_for_longest_goes_first_whoever_it_belongs_to(tmp_path: Path) -> None:
    one, two = (Cache(tmp_path / "cache", tenant, 10) for tenant in ("one", "two"))
    keep(one, tmp_path, "a", b"aaaa", used=1)
    keep(two, tmp_path, "b", b"bbbb", used=2)
    keep(one, tmp_path, "c", b"cccc", used=3)
    assert one.get("a", tmp_path / "copy")
    assert two.clean() == 4
    assert [one.get("a", tmp_path / "x"), two.get("b", tmp_path / "x"), one.get("c", tmp_path / "x")] == [
        True,
        False,
        True,
    ]
    assert len(list((tmp_path / "cache").glob("*/names/*"))) == 2
    assert two.clean() == 0


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", "one", 4)
    cache.put("a", fetched(tmp_path / "source", b"hello"))
    assert not cache.get("a", tmp_path / "copy")
