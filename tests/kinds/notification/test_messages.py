"""What is sent, and how it is signed."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from gangline.errors import InvalidInputError
from gangline.kinds.notification.messages import signature, signing_key, slack_body, webhook_body
from gangline.model import JobId, Phase, Tenant, Timestamp
from gangline.model.kinds.notification import Delivery
from tests.docs.pages import ROOT, blocks_of

DELIVERY = Delivery(
    id="n1-job-1-3",
    job="mnist",
    job_id=JobId("job-1"),
    phase=Phase.FAILED,
    previous=Phase.PROCESSING,
    reason="ReplicaFailed",
    message="worker-0: <exit code 1> & more",
    at=Timestamp(1_700_000_000.25),
)


def test_a_webhook_says_what_happened_to_which_job() -> None:
    assert json.loads(webhook_body(Tenant("vision"), DELIVERY)) == {
        "type": "job.failed",
        "timestamp": "2023-11-14T22:13:20.250Z",
        "data": {
            "tenant": "vision",
            "job": "mnist",
            "jobId": "job-1",
            "phase": "FAILED",
            "previousPhase": "PROCESSING",
            "reason": "ReplicaFailed",
            "message": "worker-0: <exit code 1> & more",
        },
    }


def test_slack_gets_one_text_in_which_nothing_is_a_command() -> None:
    text = "Job mnist of tenant vision is FAILED: worker-0: &lt;exit code 1&gt; &amp; more"
    assert json.loads(slack_body(Tenant("vision"), DELIVERY)) == {"text": text}


def test_the_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification of Standard Webhooks.
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", Timestamp(1614265330.9), b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_id_and_the_time_are_signed_too() -> None:
    key = b"k" * 32
    made = signature(key, "a", Timestamp(1.0), b"b")
    assert made == "v1," + base64.b64encode(hmac.new(key, b"a.1.b", hashlib.sha256).digest()).decode()
    assert made != signature(key, "x", Timestamp(1.0), b"b")
    assert made != signature(key, "a", Timestamp(2.0), b"b")


def test_a_receiver_that_does_as_the_manual_says_accepts_it_once_and_only_from_us() -> None:
    page = "docs/team-service.md"
    (block,) = (each for each in blocks_of(page, (ROOT / page).read_text()) if "def genuine" in each.text)
    found: dict[str, Any] = {}
    exec(block.text, found)  # what the manual shows
    key, now = b"k" * 32, int(time.time())  # noqa: TID251  # it reads the clock itself
    body = webhook_body(Tenant("vision"), DELIVERY)
    headers = {
        "webhook-id": "a",
        "webhook-timestamp": str(now),
        "webhook-signature": signature(key, "a", Timestamp(now), body),
    }
    assert found["genuine"](key, headers, body)
    assert not found["genuine"](b"another key", headers, body)
    assert not found["genuine"](key, headers, body + b" ")
    old = {**headers, "webhook-timestamp": str(now - 400)}
    assert not found["genuine"](key, old | {"webhook-signature": signature(key, "a", Timestamp(now - 400), body)}, body)


def test_a_key_is_text_or_base64() -> None:
    assert signing_key("sixteen letters!\n") == b"sixteen letters!"
    assert signing_key("whsec_" + base64.b64encode(b"s" * 24).decode()) == b"s" * 24


@pytest.mark.parametrize("text", ["", "short", "whsec_c2hvcnQ=", "whsec_not base64 at all, is it"])
def test_a_key_that_protects_nothing_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        signing_key(text)
    assert not text or text not in str(refused.value)
