"""The one place where the pure core meets the world: feeds events in, carries instructions out."""

from gangline.controller.controller import Controller

__all__ = ["Controller"]
