"""FfDL's own interface, ``/v1/models`` and ``/v1/logs``: its clients train here as they did there.

``application`` has the table of operations and writes errors in their form; ``models`` and ``logs`` translate requests
to operations by ``dialects.ffdl``. Nothing is decided here.
"""

from gangline.api.ffdl.application import make_ffdl_app

__all__ = ["make_ffdl_app"]
