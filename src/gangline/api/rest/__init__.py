"""REST over HTTP: paths and parameters to operations, answers to JSON, streams to one JSON document per line."""

from gangline.api.rest.application import make_app

__all__ = ["make_app"]
