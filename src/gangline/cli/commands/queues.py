"""``gangline queues``: the same as ``gangline queue list``."""

from gangline.cli.kind_commands import kind_group
from gangline.kinds.queue import QUEUE

command = kind_group(QUEUE).commands["list"]
command.name = "queues"
