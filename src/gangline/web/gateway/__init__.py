"""The gateway in front of workspaces: one origin for each, and a check of who may on every request and websocket."""

from gangline.web.gateway.gateway import Gateway, attach, divided, opening

__all__ = ["Gateway", "attach", "divided", "opening"]
