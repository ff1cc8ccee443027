"""What people bring with them from other tools: words, options, ways of output, secrets, examples to begin with."""

import json
from pathlib import Path

import click
import pytest
import yaml

from gangline.cli.habits import ALIASES, translated
from gangline.cli.input.options import read_phases
from gangline.cli.lazy import COMMANDS, LazyGroup
from gangline.cli.output.expressions import cells_of, columns_of, found_at, text_of
from gangline.errors import InvalidInputError
from gangline.model import Phase
from tests.cli.conftest import Here, Shell
from tools.habits_page import LINES, PAGE, answer, page

SLEEP = ("sleep", "1000")


def test_the_page_of_habits_is_what_the_command_line_answers() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run: python -m tools.habits_page"
    assert sum(map(len, LINES.values())) >= 150


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines])
def test_every_line_works_or_teaches(line: str) -> None:
    runs, said = answer(line)
    if not runs:
        assert any(word in said for word in ("Did you mean", "gangline", "--", "kubectl")) or " Here " in said
        assert "prune" not in said


def test_help_shows_aliases_as_such_and_every_one_leads_to_a_command(here: Here) -> None:
    shown = here("--help")[1]
    known = {name for section in COMMANDS.values() for name in section}
    for alias, command in ALIASES.items():
        assert command in known
        assert alias not in known
        assert f"The same as {command}." in shown.partition("Also understood:")[2]


def test_no_command_has_two_options_of_one_name() -> None:
    group = LazyGroup("gangline")
    for name in (name for section in COMMANDS.values() for name in section):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        for below in command.commands.values() if isinstance(command, click.Group) else [command]:
            names = [option for parameter in below.params for option in parameter.opts]
            assert len(names) == len(set(names)), f"{name} {below.name}: {names}"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["status"], ["list"]),
        (["status", "mnist"], ["get", "mnist"]),
        (["status", "-l", "a=b"], ["list", "-l", "a=b"]),
        (["get", "job", "mnist"], ["get", "mnist"]),
        (["attach", "mnist", "--", "cat", "job/mnist"], ["attach", "mnist", "--", "cat", "job/mnist"]),
        (["exec", "-it", "mnist", "--", "ls", "-t"], ["attach", "mnist", "--", "ls", "-t"]),
        (["submit", "--", "get", "jobs"], ["submit", "--", "get", "jobs"]),
        ([], []),
    ],
)
def test_lines_are_translated_up_to_the_users_own_command(words: list[str], want: list[str]) -> None:
    assert translated(words) == want


@pytest.mark.parametrize(
    ("word", "want"),
    [
        ("succeeded", {Phase.COMPLETED}),
        ("Pending", {Phase.QUEUED, Phase.RESUMED, Phase.RESTARTING}),
        ("condition=failed", {Phase.FAILED}),
        ("processing", {Phase.PROCESSING}),
        ("suspended", {Phase.HALTED}),
        ("finished", {Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED}),
    ],
)
def test_phases_have_everyday_names(word: str, want: set[Phase]) -> None:
    assert set(read_phases((word,))) == want


JOBS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "status": {"phase": "FAILED", "n": 2}},
        {"metadata": {"name": "b"}, "status": {"phase": "QUEUED", "n": 10}},
    ]
}


@pytest.mark.parametrize(
    ("template", "want"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[0].metadata.name", "a"),
        ("{.items[-1].status}", '{"phase": "QUEUED", "n": 10}'),
        ('{.items[?(@.status.phase=="FAILED")].metadata.name}', "a"),
        ("{.items[?(@.status.n>5)].metadata.name}", "b"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}', "a\tFAILED\nb\tQUEUED\n"),
        ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
        ("{.items[7].metadata.name}", ""),
        ("names: {.items[*].metadata.name}!", "names: a b!"),
    ],
)
def test_jsonpath_is_understood(template: str, want: str) -> None:
    assert text_of(template, JOBS) == want


def test_custom_columns_have_a_cell_for_each_path() -> None:
    columns = columns_of("NAME:.metadata.name,LABELS:.metadata.labels")
    assert [cells_of(columns, item) for item in JOBS["items"]] == [
        ("a", '{"app.kubernetes.io/name": "x"}'),
        ("b", "<none>"),
    ]
    with pytest.raises(InvalidInputError, match="names no columns"):
        columns_of("NAME")
    with pytest.raises(InvalidInputError, match="not understood"):
        found_at(JOBS, ".items[x")
    with pytest.raises(InvalidInputError, match="no end"):
        text_of("{range .items[*]}{.metadata.name}", JOBS)


def test_several_jobs_are_steered_by_label_or_all_at_once(here: Here) -> None:
    for name in ("by-label-a", "by-label-b"):
        here("submit", "--name", name, "--halted", "-l", "team=labelled", "--tenant", "many", "--", *SLEEP)
    here("submit", "--name", "unlabelled", "--halted", "--tenant", "many", "--", *SLEEP)
    code, _, said = here("stop", "-l", "team=labelled", "--tenant", "many")
    assert (code, sorted(said.splitlines())) == (0, ["by-label-a is CANCELLED", "by-label-b is CANCELLED"])
    assert here("cancel", "--tenant", "many")[0] == 2
    assert here("cancel", "unlabelled", "--all", "--tenant", "many")[0] == 2
    assert "unlabelled is CANCELLED" in here("kill", "--all", "--tenant", "many")[2]
    assert here("rm", "--all", "--tenant", "many")[0] == 0
    assert here("ps", "--tenant", "many", "-o", "name")[1] == ""
    assert "no such jobs" in here("rm", "--all", "--tenant", "many")[2]


def test_lists_are_sorted_and_printed_as_wanted(here: Here) -> None:
    for name, priority in (("sorted-b", "low"), ("sorted-a", "high")):
        here("submit", "--name", name, "--halted", "--priority", priority, "--", *SLEEP)
    assert here("ls", "sorted-", "--sort-by", "name", "-o", "name")[1] == "sorted-a\nsorted-b\n"
    assert here("ls", "sorted-", "--sort-by", ".metadata.priority", "-o", "name")[1] == "sorted-b\nsorted-a\n"
    assert here("ls", "--sort-by", "colour")[0] == 2
    paths = here("ls", "sorted-", "-o", "jsonpath={.items[*].status.phase}")[1]
    assert paths == "HALTED HALTED\n"
    assert here("get", "sorted-a", "-o", "jsonpath={.metadata.name}")[1] == "sorted-a\n"
    heading, *rows = here("ls", "sorted-", "-o", "csv")[1].splitlines()
    assert heading.startswith("name,id,tenant")
    assert [row.split(",")[0] for row in rows] == ["sorted-a", "sorted-b"]
    assert json.loads(here("get", "sorted-a", "-o", "json")[1])["metadata"]["name"] == "sorted-a"
    assert len(json.loads(here("get", "sorted-a", "sorted-b", "-o", "json")[1])) == 2
    table = here("get", "queues", "-o", "custom-columns=Q:.metadata.name")[1]
    assert table.splitlines()[:2] == ["Q", "default"]
    assert here("submit", "--dry-run", "-o", "jsonpath={.x}", "--", "true")[0] == 2
    here("rm", "sorted-a", "sorted-b")


def test_a_file_is_applied_compared_relabelled_and_replaced(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"

    def write(seconds: int, **labels: str) -> None:
        job = {"metadata": {"name": "applied", "labels": labels}, "spec": {"command": ["sleep", str(seconds)]}}
        file.write_text(yaml.safe_dump(job))

    write(1000, stage="draft")
    assert "applied is submitted" in here("apply", "-f", str(file))[2]
    assert "applied is unchanged" in here("apply", "-f", str(file))[2]
    assert here("diff", "-f", str(file))[0] == 0
    write(1000, stage="final")
    assert "applied is labelled" in here("apply", "-f", str(file))[2]
    write(2000, stage="final")
    code, out, _ = here("diff", "-f", str(file))
    assert (code, "sleep 1000" in out, "sleep 2000" in out) == (1, True, True)
    code, _, said = here("apply", "-f", str(file))
    assert (code, "differs in roles.worker.command" in said, "--replace" in said) == (4, True, True)
    assert "applied is replaced" in here("apply", "-f", str(file), "--replace")[2]
    assert here("submit", "-f", str(file), "--replace")[0] == 0
    assert "applied has best=yes, stage=final" in here("label", "applied", "best=yes")[2]
    assert "applied has best=yes" in here("label", "applied", "stage-")[2]
    assert here("label", "applied", "stage")[0] == 2
    here("rm", "applied")


def test_other_kinds_are_applied_too(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    queue = {"apiVersion": "gangline.dev/v1", "kind": "Queue", "metadata": {"name": "applied-queue"}, "spec": {}}
    for weight, want in ((2, "created"), (2, "unchanged"), (3, "changed")):
        file.write_text(yaml.safe_dump({**queue, "spec": {"weight": weight}}))
        assert f"queue applied-queue is {want}" in here("apply", "-f", str(file))[2]
    here("queue", "delete", "applied-queue")


def test_variables_come_from_files_and_from_here(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("# settings\nexport A=1\nB='two words'\nC\n")
    monkeypatch.setenv("C", "three")
    monkeypatch.setenv("D", "four")
    words = ("submit", "--dry-run", "--env-file", str(tmp_path / ".env"), "-e", "D", "-e", "A=5", "--", "true")
    env = yaml.safe_load(here(*words)[1])["spec"]["env"]
    assert {name: env[name] for name in "ABCD"} == {"A": "5", "B": "two words", "C": "three", "D": "four"}
    code, _, said = here("submit", "--dry-run", "-e", "NOWHERE", "--", "true")
    assert (code, "'NOWHERE' is not set here" in said) == (2, True)
    (tmp_path / ".env").write_text("A=1\nnonsense here\n")
    assert ".env:2" in here("submit", "--dry-run", "--env-file", str(tmp_path / ".env"), "--", "true")[2]


def test_a_secret_reaches_the_job_and_nothing_shows_it(shell: Shell, here: Here, tmp_path: Path) -> None:
    assert shell.run("secret", "set", "keys", "TOKEN", text_in="", TOKEN="hush-hush").returncode == 0
    (tmp_path / "job.yaml").write_text(
        yaml.safe_dump(
            {
                "metadata": {"name": "with-secret"},
                "spec": {
                    "env": {"KEY": {"secret": "keys/TOKEN"}, "PLAIN": 1},
                    "command": ["sh", "-c", "echo $PLAIN ${#KEY}"],
                },
            }
        )
    )
    _, out, _ = here("submit", "-f", str(tmp_path / "job.yaml"), "--follow")
    assert out == "1 9\n"
    done = shell.run(
        "submit", "--name", "short-secret", "--secret", "KEY=keys/TOKEN", "--follow", "--", "sh", "-c", "echo ${#KEY}"
    )
    assert done.stdout == "9\n"
    for words in (
        ("get", "with-secret", "-o", "json"),
        ("describe", "with-secret"),
        ("events", "with-secret", "-o", "json"),
        ("secret", "get", "keys", "-o", "yaml"),
        ("secret", "list", "-o", "wide"),
        ("rerun", "with-secret", "--halted"),
    ):
        code, out, said = here(*words)
        assert code == 0
        assert "hush" not in out + said
    for wrong in ("keys", "/TOKEN", "keys/"):
        assert here("submit", "--dry-run", "--secret", f"KEY={wrong}", "--", "true")[0] == 2
    assert here("secret", "set", "keys", "TOKEN=visible")[0] == 2
    assert here("secret", "delete", "keys")[0] == 0
    assert not list(Path(shell.settings.home).glob("objects/*/secrets/keys.json"))


@pytest.mark.parametrize(
    ("template", "words"),
    [("ps", ("submit", "-f", "job.yaml", "--wait")), ("sweep", ("sweep", "-f", "sweep.yaml", "--wait"))],
)
def test_an_example_to_begin_with_runs_as_it_is(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, words: tuple[str, ...]
) -> None:
    code, out, said = here("init", template, str(tmp_path))
    assert code == 0
    assert "run it with: " in said
    assert here("init", template, str(tmp_path))[0] == 4
    monkeypatch.chdir(tmp_path)
    code, out, said = here(*words)
    assert code == 0, out + said


def test_examples_to_begin_with_are_listed(here: Here) -> None:
    assert {line.split()[0] for line in here("init")[1].splitlines()} == {
        *("torch", "ps", "jax", "tensorflow", "sweep", "pipeline"),
    }


def test_lines_are_chosen_by_a_pattern_and_numbers_of_several_jobs_are_compared(here: Here, tmp_path: Path) -> None:
    record = '{"at": 1, "name": "loss", "value": %s, "step": 1}\\n'
    program = f"for i in 1 2 3; do echo step $i; done; printf '{record}' $1 >> $GANGLINE_METRICS"
    for name, loss in (("curve-a", "0.5"), ("curve-b", "0.25")):
        here("submit", "--name", name, "--wait", "--", "sh", "-c", program, "sh", loss)
    assert here("logs", "curve-a", "--grep", "step [23]")[1] == "step 2\nstep 3\n"
    assert here("logs", "curve-a", "--grep", "(")[0] == 2
    drawn = here("metrics", "curve-a", "curve-b", "--plot", "--log-y", "--against", "step")[1]
    assert "curve-a worker-0  0.5" in drawn
    assert "curve-b worker-0  0.25" in drawn
    rows = here("metrics", "curve-a", "curve-b", "-o", "csv")[1].splitlines()
    assert [row.split(",")[:4] for row in rows[1:]] == [
        ["curve-a", "loss", "1", "0.5"],
        ["curve-b", "loss", "1", "0.25"],
    ]
    png = tmp_path / "curves.png"
    assert here("metrics", "curve-a", "curve-b", "--png", str(png))[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    costs = json.loads(here("cost", "curve-a", "curve-b", "--price", "cpu=3600", "-o", "json")[1])
    assert all(each["money"] == pytest.approx(each["cpu_hours"] * 3600) for each in costs)
    assert here("cost", "--price", "time=1")[0] == 2
    assert "(all)" in here("cost", "curve-a")[1]
    assert here("top", "--once")[1].startswith("NODE")
