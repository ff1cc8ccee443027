"""What is sent, in each form, and how it is signed: as Standard Webhooks (standardwebhooks.com) has it."""

import base64
import binascii
import hashlib
import hmac
import json
from datetime import UTC, datetime

from gangline.errors import InvalidInputError
from gangline.model import Tenant, Timestamp
from gangline.model.kinds.notification import Delivery

ID_HEADER, TIME_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
KEY_PREFIX = "whsec_"
"""How a key begins that is written in base64; any other text is a key as it is."""
_LEAST_KEY_BYTES = 16


def webhook_body(tenant: Tenant, delivery: Delivery) -> bytes:
    """Return the document that is posted."""
    at = datetime.fromtimestamp(delivery.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    data = {
        "tenant": tenant,
        "job": delivery.job,
        "jobId": delivery.job_id,
        "phase": delivery.phase,
        "previousPhase": delivery.previous,
        "reason": delivery.reason,
        "message": delivery.message,
    }
    return json.dumps({"type": f"job.{delivery.phase.lower()}", "timestamp": at, "data": data}).encode()


def slack_body(tenant: Tenant, delivery: Delivery) -> bytes:
    """Return a message as incoming webhooks of Slack, and of what is compatible with it, read it."""
    text = sentence(tenant, delivery)
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return json.dumps({"text": text}).encode()


def sentence(tenant: Tenant, delivery: Delivery) -> str:
    """Return one line for people."""
    why = delivery.message or delivery.reason
    return f"Job {delivery.job} of tenant {tenant} is {delivery.phase}" + (f": {why}" if why else "")


def signing_key(text: str) -> bytes:
    """Read a key; raises InvalidInputError, which does not show it."""
    key = text.strip()
    try:
        found = base64.b64decode(key[len(KEY_PREFIX) :], validate=True) if key.startswith(KEY_PREFIX) else key.encode()
    except binascii.Error:
        found = b""
    if len(found) < _LEAST_KEY_BYTES:
        raise InvalidInputError(
            "the key cannot be used",
            field="key",
            expected=f"{_LEAST_KEY_BYTES} bytes or more; {KEY_PREFIX}BASE64, or text",
        )
    return found


def signature(key: bytes, delivery_id: str, at: Timestamp, body: bytes) -> str:
    """Sign a delivery together with its id and the time it is sent at, so that an old one is not accepted again."""
    signed = b"%s.%d." % (delivery_id.encode(), int(at)) + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
