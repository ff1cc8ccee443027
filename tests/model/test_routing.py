"""The routing table and the statistics travel as JSON and back."""

import pytest

from gangline.errors import InvalidInputError
from gangline.model.routing import (
    Backend,
    BackendState,
    BackendStatistics,
    Certificate,
    HeaderRule,
    RetryRules,
    RevisionRoute,
    RevisionStatistics,
    RouterStatistics,
    RoutingTable,
    ServiceRoute,
    Token,
    decode_statistics,
    decode_table,
    encode_statistics,
    encode_table,
)

TABLE = RoutingTable(
    version=7,
    tls=Certificate(certificate="/c.pem", key="/k.pem"),
    services=(
        ServiceRoute(
            name="digits",
            hosts=("digits.example.com",),
            port=9000,
            tokens=(Token(name="ci", sha256="ab"),),
            retries=RetryRules(repeatable=True),
            revisions=(
                RevisionRoute(
                    name="digits-1",
                    weight=90,
                    backends=(Backend(address="127.0.0.1:1"), Backend(address="unix:/s", state=BackendState.DRAINING)),
                ),
                RevisionRoute(name="digits-2", weight=10, tag="next", headers=(HeaderRule(name="x-try"),)),
            ),
        ),
    ),
)


def test_a_table_comes_back_as_it_was_written() -> None:
    assert decode_table(encode_table(TABLE)) == TABLE


def test_what_is_not_said_has_a_default() -> None:
    assert decode_table(b'{"services": [{"name": "digits"}]}') == RoutingTable(services=(ServiceRoute(name="digits"),))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"services": [{}]}', b'{"version": "x"}', b"\xff"])
def test_what_is_no_table_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInputError, match="not a routing table"):
        decode_table(text)


def test_statistics_come_back_as_they_were_written() -> None:
    statistics = RouterStatistics(
        version=3,
        revisions=(
            RevisionStatistics(
                service="digits",
                revision="digits-1",
                answers={"2xx": 4},
                errors={"reset": 1},
                backends=(BackendStatistics(address="127.0.0.1:1", under_way=2, ejected=True),),
            ),
        ),
    )
    assert decode_statistics(encode_statistics(statistics)) == statistics
