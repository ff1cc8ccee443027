"""The one place where the pure core meets the world: feeds events in, carries instructions out."""

from gangline.controller.controller import Controller
from gangline.controller.sweeps import SweepDriver

__all__ = ["Controller", "SweepDriver"]
