"""How numbers, times and tables are written."""

from dataclasses import replace

import click
import pytest

from gangline.cli.commands.describe import _summary
from gangline.cli.commands.top import _node_row
from gangline.cli.output import formatting, table
from gangline.cli.output.job_table import row
from gangline.errors import InvalidInputError
from gangline.model import Resources, Timestamp
from gangline.model.jobs.transfer import TransferProgress
from gangline.model.observation import NodeUsage
from gangline.model.wording import transfer_text
from gangline.sdk.values import NodeTop
from gangline.testing.builders import START, make_node, make_running_job


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"),
        (0.25, "0.2s"),
        (9, "9s"),
        (45, "45s"),
        (200, "3m 20s"),
        (7500, "2h 5m"),
        (360000, "4d 4h"),
        (3600, "1h"),
    ],
)
def test_a_duration_is_written_as_people_say_it(seconds: float, want: str) -> None:
    assert formatting.duration(seconds) == want


@pytest.mark.parametrize(
    ("elapsed", "want"),
    [
        (-5, "now"),
        (0.5, "now"),
        (1, "1s ago"),
        (119, "119s ago"),
        (200, "3m ago"),
        (7300, "2h ago"),
        (200_000, "2d ago"),
    ],
)
def test_a_time_is_written_as_how_long_ago_it_was(elapsed: float, want: str) -> None:
    assert formatting.ago(Timestamp(1000.0), Timestamp(1000.0 + elapsed)) == want


@pytest.mark.parametrize(("number", "want"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs")])
def test_a_number_of_things_is_written_as_people_say_it(number: int, want: str) -> None:
    assert formatting.counted(number, "job") == want


def test_a_time_that_never_was() -> None:
    assert formatting.ago(None, Timestamp(0.0)) == "-"


@pytest.mark.parametrize(
    ("text", "want"),
    [("90", 90), ("90s", 90), ("1h30m", 5400), ("7d", 604800), ("250ms", 0.25), ("1.5h", 5400), ("2w", 1209600)],
)
def test_durations_are_read(text: str, want: float) -> None:
    assert formatting.read_duration(text, "--since") == want


@pytest.mark.parametrize("text", ["", "soon", "-3s", "1h 30m", "5y", "1h30", "99999999d", "9" * 400])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="--since"):
        formatting.read_duration(text, "--since")


def test_an_amount_is_written_as_people_say_it() -> None:
    resources = Resources(cpu_millis=1500, memory_mib=2048, gpu_millis=500, extended={"fpga": 1})
    assert formatting.amount(resources) == "1.5 CPU, 2 GiB, 0.5 GPU, 1 fpga"


def test_a_text_of_several_lines_is_one_line_of_a_table() -> None:
    lines = table.lines(("NAME", "COMMAND"), [("a", "sh -c for x in 1 2; do\n\techo $x\r\ndone"), ("b", "true")])
    assert lines == ["NAME  COMMAND", r"a     sh -c for x in 1 2; do\n\techo $x\r\ndone", "b     true"]


def test_columns_align_whatever_their_colour() -> None:
    lines = table.lines(
        ("NAME", "PHASE", "WHY"), [("a", click.style("FAILED", fg="red"), "x"), ("long-name", "OK", "y")]
    )
    assert [click.unstyle(line) for line in lines] == [
        "NAME       PHASE   WHY",
        "a          FAILED  x",
        "long-name  OK      y",
    ]


def test_the_last_column_is_cut_to_the_width() -> None:
    lines = table.lines(("NAME", "REASON"), [("a", "word " * 40)], width=40)
    assert max(len(line) for line in lines) == 40
    assert lines[1].endswith("…")
    assert "word " * 39 in table.lines(("NAME", "REASON"), [("a", "word " * 40)])[1]


def test_a_description_says_when_the_work_was_last_saved() -> None:
    job = make_running_job()
    assert not any(line.startswith("Checkpoint:") for line in _summary(job, Timestamp(START)))
    saved = replace(job, checkpoint_at=Timestamp(START))
    assert "Checkpoint: 2h ago" in list(_summary(saved, Timestamp(START + 7300)))


def test_how_far_data_is_stands_with_the_phase() -> None:
    moving = TransferProgress(moved_bytes=3 << 29, total_bytes=2 << 30, bytes_per_second=64 << 20, move=2, moves=3)
    job = replace(make_running_job(), transfer=moving)
    assert row(job, Timestamp(START))[-1].endswith(": 2/3: 1.5 GiB of 2 GiB, 64 MiB/s, 8s left")
    assert any("1.5 GiB of 2 GiB" in line for line in _summary(job, Timestamp(START)))
    assert transfer_text(TransferProgress(total_bytes=5)) == "0 B of 5 B, 0 B/s"


def test_a_closed_gpu_is_shown_with_the_reason() -> None:
    machine = replace(make_node(gpus=2), closed_gpus={"1": "it has fallen off the bus"})
    usage = NodeUsage(node=machine.name, gpu_percent={"0": 40, "1": 0}, gpu_memory_mib={"0": 1024})
    shown = _node_row(NodeTop(node=machine, usage=usage, replicas=1))[-1]
    assert shown == "0 40% 1 GiB; 1 closed: it has fallen off the bus"
