"""Keys are values that are not shown."""

import pytest

from gangline.data.credentials import NoStores, StoreCredentials
from gangline.data.unpacking import PermanentError

GIVEN = StoreCredentials(endpoint="http://host", region="eu-1", key="the-key", secret="the-secret", token="the-token")


def test_neither_repr_nor_str_shows_a_secret() -> None:
    for text in (repr(GIVEN), str(GIVEN), f"{GIVEN}", repr([GIVEN])):
        assert "http://host" in text
        assert not any(hidden in text for hidden in ("the-key", "the-secret", "the-token"))


def test_what_is_written_is_read_again() -> None:
    assert StoreCredentials.from_plain(GIVEN.as_plain()) == GIVEN
    assert StoreCredentials(key="only").as_plain() == {"key": "only"}


def test_a_field_that_is_not_known_is_named_without_its_value() -> None:
    with pytest.raises(PermanentError, match="no 'password'") as refusal:
        StoreCredentials.from_plain({"password": "the-secret"})
    assert "the-secret" not in str(refusal.value)


async def test_where_there_are_no_stores_a_name_is_refused_and_no_name_is_not() -> None:
    assert await NoStores().find("one", None, "s3://bucket") is None
    with pytest.raises(PermanentError, match="there is no store 'lake'"):
        await NoStores().find("one", "lake", "s3://bucket")
