"""What a service measures of itself, for a monitoring system. The core never imports it: it returns reasons."""

from gangline.telemetry.logs import begin_log
from gangline.telemetry.numbers import Numbers, numbers_or_none
from gangline.telemetry.traces import Traces, traces_to

__all__ = ["Numbers", "Traces", "begin_log", "numbers_or_none", "traces_to"]
