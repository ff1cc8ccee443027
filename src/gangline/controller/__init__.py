"""The one place where the pure core meets the world: feeds events in, carries instructions out."""

from gangline.controller.controller import Controller
from gangline.controller.records import RecordDriver

__all__ = ["Controller", "RecordDriver"]
