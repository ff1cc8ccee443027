"""Reading documents that somebody else wrote: what is not there, or is something else, is nothing."""

import pytest

from gangline.api.kubernetes.plain import decode_object, items, merged, part, text, texts
from gangline.errors import InvalidInputError

DOCUMENT: dict[str, object] = {
    "metadata": {"name": "x", "empty": "", "number": 3, "labels": {"a": 1}},
    "list": [{"n": 1}, "no object"],
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(("metadata", "name"), "x", id="a text"),
        pytest.param(("metadata", "empty"), None, id="an empty text"),
        pytest.param(("metadata", "number"), None, id="a number"),
        pytest.param(("metadata", "labels"), None, id="an object"),
        pytest.param(("list", "name"), None, id="below a list"),
        pytest.param(("nowhere", "name"), None, id="nothing"),
    ],
)
def test_only_a_text_is_read_as_one(path: tuple[str, ...], want: str | None) -> None:
    assert text(DOCUMENT, *path) == want


def test_what_is_no_object_is_an_empty_one() -> None:
    assert part(DOCUMENT, "metadata", "labels") == {"a": 1}
    assert part(DOCUMENT, "list") == part(DOCUMENT, "metadata", "name", "below") == {}


def test_labels_are_texts_and_lists_hold_objects() -> None:
    assert texts(DOCUMENT, "metadata", "labels") == {"a": "1"}
    assert items(DOCUMENT, "list") == [{"n": 1}]
    assert items(DOCUMENT, "metadata") == []


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="added"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="within"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="removed"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="a list is replaced"),
        pytest.param({"a": 1}, {"a": {"b": None, "c": 2}}, {"a": {"c": 2}}, id="an object in place of a number"),
    ],
)
def test_a_merge_patch_does_what_its_standard_says(target: object, patch: object, want: object) -> None:
    assert merged(target, patch) == want


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b"{", "not JSON", id="half of one"),
        pytest.param(b"\xff", "not JSON", id="no text"),
        pytest.param(b"[]", "not an object", id="a list"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="bottomless"),
    ],
)
def test_a_body_that_is_no_object_is_refused(raw: bytes, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        decode_object(raw)
