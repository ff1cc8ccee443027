"""Object stores without the library that speaks to them."""

import sys

import pytest

from gangline.data.addresses import parse
from gangline.data.stores import Folder
from gangline.data.unpacking import PermanentError


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        PermanentError, match=r"s3://bucket/key: object stores need an extra: pip install 'gangline\[data\]'"
    ):
        Folder.open(parse("s3://bucket/key"))
