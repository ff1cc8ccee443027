"""The log of a service on standard error: lines for people, or JSON documents for whatever collects logs."""

import json
import logging
from datetime import UTC, datetime

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s%(request)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Writes each line as a JSON document, in which what has no value is left out."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a line."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request": getattr(record, "request", "").strip(" []"),
            "error": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({name: value for name, value in found.items() if value})


def begin_log(form: str, request_ids: logging.Filter) -> None:
    """Begin to write; ``request_ids`` gives each line the request that it is about."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(_TEXT))
    handler.addFilter(request_ids)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
