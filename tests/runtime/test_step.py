"""A step's command as its job runs it: places made, packages installed once, outputs reported."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gangline.pipelines.reports import missing_in, outputs_of


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def run_step(
        command: list[str], parameters: dict[str, str] | None = None, **artifacts: Any
    ) -> tuple[int, Any, str]:
        order = {"path": "x", "parameters": parameters or {}, "artifacts": artifacts}
        result = tmp_path / "result"
        result.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "GANGLINE_STEP": json.dumps(order),
            "RESULT_DIR": str(tmp_path / "results"),
            "GANGLINE_RESULT": str(result),
            "GANGLINE_ENVIRONMENTS": str(tmp_path / "environments"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "gangline.runtime.step", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        found = outputs_of(result.read_text(), json.dumps(order)) if result.exists() else None
        return done.returncode, found, done.stderr

    return run_step


PLACE = "{{RESULT_DIR}}/outputs/out"
REPORT = "{{RESULT_DIR}}/executor_output.json"


def test_an_output_is_read_from_the_place_that_the_command_was_given(run: Any) -> None:
    code, found, _ = run(["sh", "-c", f"printf '3 😀' > {PLACE}"], {"out": PLACE})
    assert (code, found) == (0, {"parameters": {"out": "3 😀"}, "artifacts": {}})


def test_what_the_program_reports_itself_counts_more(run: Any, tmp_path: Path) -> None:
    said = {"parameterValues": {"out": [3, "x"]}, "artifacts": {"data": {"artifacts": [{"metadata": {"rows": 3}}]}}}
    code, found, _ = run(
        ["sh", "-c", f"printf 4 > {PLACE}; printf '%s' '{json.dumps(said)}' > {REPORT}"],
        {"out": PLACE},
        data={"name": "data", "uri": "{{RESULT_DIR}}/outputs/data", "metadata": {}},
    )
    uri = str(tmp_path / "results/outputs/data")
    want = [{"name": "data", "uri": uri, "metadata": {"rows": 3}, "digest": ""}]
    assert (code, found) == (0, {"parameters": {"out": [3, "x"]}, "artifacts": {"data": want}})


def test_an_artefact_is_known_by_its_content_wherever_it_is(run: Any) -> None:
    def digest(script: str) -> str:
        place = "{{RESULT_DIR}}/outputs/data"
        code, found, said = run(["sh", "-c", script, place], data={"name": "data", "uri": place})
        assert code == 0, said
        return str(found["artifacts"]["data"][0]["digest"])

    folder = "mkdir $0; echo %s > $0/%s"
    assert digest("echo 1 > $0") == digest("echo 1 > $0; true") != digest("echo 2 > $0")
    assert digest(folder % (1, "a")) == digest(folder % (1, "a")) != digest(folder % (1, "b"))
    assert digest(folder % (1, "a")) != digest(folder % (2, "a"))


def test_a_later_attempt_does_not_see_what_an_earlier_one_left(run: Any) -> None:
    run(["sh", "-c", f"printf 4 > {PLACE}"], {"out": PLACE})
    assert run(["true"], {"out": PLACE})[1] == {"parameters": {}, "artifacts": {}}


def test_a_failed_command_reports_nothing_and_keeps_its_exit_code(run: Any) -> None:
    assert run(["sh", "-c", "exit 7"])[:2] == (7, None)
    assert run(["sh", "-c", "kill -9 $$"])[:2] == (137, None)
    code, found, said = run(["no-such-command"])
    assert (code, found) == (127, None)
    assert "the command cannot be run" in said


def test_outputs_that_are_too_large_are_refused(run: Any) -> None:
    code, found, said = run(["sh", "-c", f"head -c 300000 /dev/zero | tr '\\0' x > {PLACE}"], {"out": PLACE})
    assert (code, found) == (1, None)
    assert "make them artefacts" in said


def test_an_output_that_is_not_text_is_named(run: Any) -> None:
    code, found, said = run(["sh", "-c", f"printf '\\377\\376' > {PLACE}"], {"out": PLACE})
    assert (code, found) == (1, None)
    assert said == "gangline: the output 'out' is not UTF-8 text; make it an artefact\n"


def test_packages_are_installed_once_for_all_steps_that_ask_for_the_same(run: Any, tmp_path: Path) -> None:
    log = tmp_path / "installed"
    install = f"echo pip install >> {log}; : pip install x"
    command = ["sh", "-c", f'{install} && "$0" "$@"\n', "sh", "-c", f'printf "%s" "$VIRTUAL_ENV" > {PLACE}']
    for _ in range(2):
        code, found, said = run(command, {"out": PLACE})
        assert code == 0, said
        assert found["parameters"]["out"].startswith(str(tmp_path / "environments"))
    assert log.read_text() == "pip install\n"


def test_packages_that_cannot_be_installed_fail_the_step(run: Any) -> None:
    code, found, said = run(["sh", "-c", 'false pip install && "$0" "$@"', "true"])
    assert (code, found) == (1, None)
    assert "cannot be installed" in said


def test_an_artefact_that_is_gone_is_named_before_anything_runs(tmp_path: Path) -> None:
    order = {"path": "x", "parameters": {}, "artifacts": {}, "needs": {str(tmp_path / "gone"): "data"}}
    environment = {
        **os.environ,
        "GANGLINE_STEP": json.dumps(order),
        "RESULT_DIR": str(tmp_path / "results"),
        "GANGLINE_RESULT": str(tmp_path / "result"),
    }
    command = [sys.executable, "-m", "gangline.runtime.step", "touch", str(tmp_path / "ran")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "ran").exists()) == (1, False)
    assert f"the artefact 'data' is no longer at {tmp_path / 'gone'}" in done.stderr
    assert missing_in((tmp_path / "result").read_text()) == str(tmp_path / "gone")


def test_only_the_first_replica_of_the_lead_role_reports(tmp_path: Path) -> None:
    order = {"path": "x", "lead": "chief", "parameters": {"out": PLACE}, "artifacts": {}}
    (tmp_path / "results" / "outputs").mkdir(parents=True)
    (tmp_path / "results" / "outputs" / "out").write_text("of the chief")
    for role, index in (("worker", "0"), ("chief", "1")):
        environment = {
            **os.environ,
            "GANGLINE_STEP": json.dumps(order),
            "GANGLINE_ROLE": role,
            "GANGLINE_INDEX": index,
            "RESULT_DIR": str(tmp_path / "results"),
            "GANGLINE_RESULT": str(tmp_path / "result"),
        }
        command = [sys.executable, "-m", "gangline.runtime.step", "cat", PLACE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, (tmp_path / "result").exists()) == (0, "of the chief", False)


def test_a_program_that_cannot_be_told_where_leaves_its_output_where_it_likes(run: Any, tmp_path: Path) -> None:
    left = tmp_path / "left"
    order = {"path": "x", "parameters": {"out": PLACE}, "artifacts": {}, "left_at": {PLACE: str(left)}}
    environment = {
        **os.environ,
        "GANGLINE_STEP": json.dumps(order),
        "RESULT_DIR": str(tmp_path / "results"),
        "GANGLINE_RESULT": str(tmp_path / "result"),
    }
    command = [sys.executable, "-m", "gangline.runtime.step", "sh", "-c", f"printf 7 > {left}"]
    subprocess.run(command, env=environment, check=True)
    assert outputs_of((tmp_path / "result").read_text(), json.dumps(order))["parameters"] == {"out": "7"}


def test_the_shell_of_a_step_knows_what_that_of_small_images_knows(run: Any) -> None:
    code, found, said = run(["sh", "-c", f"set -o pipefail; [[ a == a ]] && printf 1 > {PLACE}"], {"out": PLACE})
    assert (code, found["parameters"]) == (0, {"out": "1"}), said


@pytest.mark.parametrize("make", ["echo 1 > $0", "mkdir $0; echo 1 > $0/part"])
def test_an_artefact_that_was_made_elsewhere_is_put_where_it_belongs(run: Any, tmp_path: Path, make: str) -> None:
    place, own = "{{RESULT_DIR}}/outputs/data/data", str(tmp_path / "own")
    said = {"artifacts": {"data": {"artifacts": [{"name": "data", "uri": place, "custom_path": own}]}}}
    script = f"{make}; printf '%s' '{json.dumps(said)}' > {REPORT}"
    code, found, _ = run(["sh", "-c", script, own], data={"name": "data", "uri": place})
    assert (code, len(found["artifacts"]["data"][0]["digest"])) == (0, 64)
    assert (tmp_path / "results" / "outputs" / "data" / "data").exists()
