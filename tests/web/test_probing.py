"""Every page is asked for what nobody meant: it may refuse, and it may not fail."""

import re
from urllib.parse import quote

import pytest

from gangline.model.team.access import Right
from gangline.web.application import all_operations
from gangline.web.frame import PREFIX
from tests.operations.fakes import Office
from tests.web.conftest import Visitor
from tests.web.test_protection import submitted

ODD = ("default", "mnist", "..", "a" * 300, "Ünï\U0001f389", "x\x00y", "%", "<b>'\"", "-1")
QUERY = ("after", "kind", "like", "job", "sort", "phase", "text", "hours", "limit", "tenant", "code", "live", "port")


def paths(template: str) -> list[str]:
    names = re.findall(r"{(\w+)(?::[^}]*)?}", template)
    found = []
    for value in ODD if names else ("",):
        path = re.sub(r"{tenant}", "default", template) if value != ODD[0] else template
        found.append(PREFIX + re.sub(r"{\w+(?::[^}]*)?}", quote(value, safe=""), path))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_page_fails_whatever_it_is_asked(office: Office, owner: Visitor, method: str) -> None:
    await submitted(office)
    csrf, failed = await owner.csrf(), []
    for row in all_operations():
        if row.method != method or row.right is Right.ANYONE or row.path == "/logout":
            continue
        for number, path in enumerate(paths(row.path)):
            odd = ODD[number % len(ODD)]
            if method == "GET":
                query = "&".join(f"{name}={quote(odd, safe='')}" for name in QUERY)
                asked = [await owner.get(path), await owner.get(f"{path}?{query}")]
            else:
                asked = [
                    await owner.post(path, {"csrf": csrf, "values": odd, "file": odd, "command": odd, "name": odd})
                ]
            failed += [(path, status) for status, _ in asked if status >= 500]
    assert not failed
