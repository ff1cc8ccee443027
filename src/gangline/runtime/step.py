"""Runs the command of a pipeline's step and reports what it made: ``python -m gangline.runtime.step``.

The arguments are the command, with ``{{RESULT_DIR}}`` and ``{{DATA_DIR}}`` for the directories of results and of data;
``GANGLINE_STEP`` has the names of the outputs and files for inputs. A shell line that installs packages first, as kfp
compiles it, installs them once into an environment that later steps with the same line find. The outputs go into the
file ``GANGLINE_RESULT``, as JSON; of several replicas only the first of the lead role reports any.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gangline.runtime.errors import RuntimeLibraryError

_DIRECTORIES = ("RESULT_DIR", "DATA_DIR")
_MOST_RESULT_BYTES = 1 << 18
_THEN_RUN = '&& "$0" "$@"'
_INSTALLS = "pip install"


def main() -> int:
    """Run the step that the environment describes; the exit code is the command's own."""
    folder = Path(os.environ.get("RESULT_DIR", "results")).absolute()
    order = json.loads(_placed(os.environ["GANGLINE_STEP"]))
    reports = _reports(order)
    if reports:
        _make_places(order, folder)
    if "lacking" in order:
        sys.stderr.write(f"gangline: {order['lacking']}\n")
    environment = {name: value for name, value in os.environ.items() if name != "GANGLINE_STEP"}
    if (gone := next((each for each in order.get("needs", {}) if not Path(each).exists()), None)) is not None:
        sys.stderr.write(f"gangline: the artefact '{order['needs'][gone]}' is no longer at {gone}\n")
        if reports:
            _write_report({"missing": gone})
        return 1
    try:
        command = _installed([_placed(word) for word in sys.argv[1:]], environment)
        if not reports:
            os.execvpe(command[0], _with_full_shell(command), environment)
        code = subprocess.run(_with_full_shell(command), env=environment, check=False).returncode
    except OSError as error:
        sys.stderr.write(f"gangline: the command cannot be run: {error}\n")
        return 127
    except RuntimeLibraryError as error:
        sys.stderr.write(f"gangline: {error}\n")
        return 1
    return _report(order, folder) if code == 0 else (code if code > 0 else 128 - code)


def _with_full_shell(command: list[str]) -> list[str]:
    """Let bash be the shell where it is installed: that of small images knows more than the plainest here."""
    bash = shutil.which("bash") if command[:1] in (["sh"], ["/bin/sh"]) else None
    return [bash, *command[1:]] if bash else command


def _reports(order: dict[str, Any]) -> bool:
    """Whether this replica is the one that makes the outputs."""
    role = os.environ.get("GANGLINE_ROLE")
    return role is None or (role == order.get("lead", role) and os.environ.get("GANGLINE_INDEX", "0") == "0")


def _placed(text: str) -> str:
    """Put directories in place of tokens. The text may be JSON, which may itself hold JSON: a path is safe in both."""
    for name in _DIRECTORIES:
        text = text.replace(f"{{{{{name}}}}}", str(Path(os.environ.get(name, name)).absolute()))
    return text


def _make_places(order: dict[str, Any], folder: Path) -> None:
    """Make room for outputs, and remove what an attempt before has left."""
    shutil.rmtree(folder / "outputs", ignore_errors=True)
    (folder / "executor_output.json").unlink(missing_ok=True)
    for output in (*order["parameters"].values(), *(each["uri"] for each in order["artifacts"].values())):
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    for place, text in order.get("inputs", {}).items():
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(text, encoding="utf-8")


def _installed(command: list[str], environment: dict[str, str]) -> list[str]:
    """Take the installation off the front of a command, having done it once in an environment of its own."""
    if command[:2] != ["sh", "-c"] or len(command) < 4 or _INSTALLS not in command[2] or _THEN_RUN not in command[2]:
        return command
    before, _, behind = command[2].partition(_THEN_RUN)
    if behind.strip():
        return command
    environment.update(_environment(before, environment))
    return command[3:]


def _environment(script: str, environment: dict[str, str]) -> dict[str, str]:
    """Return the variables of the environment that a script makes of an empty one; the first makes it, others wait.

    Scripts may make environments of their own in temporary folders: those are kept beside it.
    """
    cache = Path(environment.get("GANGLINE_ENVIRONMENTS") or Path.home() / ".cache" / "gangline" / "environments")
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / hashlib.sha256(f"{sys.version} {script}".encode()).hexdigest()[:24]
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            _run([*_maker(), str(place)], environment)
            (place / "tmp").mkdir()
            inside = {
                # A replica that may install what it likes is told to keep it to itself; this is for all.
                **{name: value for name, value in environment.items() if name != "PIP_TARGET"},
                "PATH": f"{place / 'bin'}{os.pathsep}{environment.get('PATH', '')}",
                "VIRTUAL_ENV": str(place),
                "TMPDIR": str(place / "tmp"),
            }
            _run(["sh", "-c", f'{script} && printf "%s" "$VIRTUAL_ENV" >"$TMPDIR/active"'], inside)
            (place / "complete").write_bytes((place / "tmp" / "active").read_bytes())
        active = (place / "complete").read_text(encoding="utf-8") or str(place)
    found = {"PATH": f"{active}/bin{os.pathsep}{environment.get('PATH', '')}", "VIRTUAL_ENV": active}
    if active != str(place):  # one within ours, which sees what the system has, and not what ours has
        outer = next(place.glob("lib/python*/site-packages"))
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(outer), environment.get("PYTHONPATH", ""))))
    return found


def _maker() -> list[str]:
    """Return what makes an environment with pip in it: uv where it is installed, which takes a tenth of the time."""
    uv = shutil.which("uv")
    if uv is None:
        return [sys.executable, "-m", "venv"]
    return [uv, "venv", "--quiet", "--seed", "--python", sys.executable]


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeLibraryError(
            f"the packages of the step cannot be installed (exit code {done.returncode}); see above"
        )


def _report(order: dict[str, Any], folder: Path) -> int:
    """Write down what the program reports, what it left in the places it was given, and digests of artefacts."""
    for place, left in order.get("left_at", {}).items():
        if Path(left).exists():
            shutil.move(left, place)
    files = {"results": str(folder)}
    report = folder / "executor_output.json"
    artifacts = list(order["artifacts"].values())
    if report.exists() and report.stat().st_size:
        files["said"] = report.read_text(encoding="utf-8")
        said = json.loads(files["said"]).get("artifacts") or {}
        artifacts += [each for found in said.values() for each in found.get("artifacts", ())]
        _fetch_from_custom_paths(artifacts)
    for name, place in order["parameters"].items():
        if Path(place).is_file():
            try:
                files[f"parameter:{name}"] = Path(place).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                sys.stderr.write(f"gangline: the output '{name}' is not UTF-8 text; make it an artefact\n")
                return 1
    for uri in {str(each.get("uri", "")) for each in artifacts}:
        if found := _digest(Path(uri)):
            files[f"digest:{uri}"] = found
    return _write_report(files)


def _write_report(files: dict[str, str]) -> int:
    text = json.dumps(files, ensure_ascii=False)
    if len(text.encode()) > _MOST_RESULT_BYTES:
        sys.stderr.write(f"gangline: the outputs are larger than {_MOST_RESULT_BYTES:,} bytes; make them artefacts\n")
        return 1
    if path := os.environ.get("GANGLINE_RESULT"):
        Path(path).write_text(text, encoding="utf-8")
    return 0


def _fetch_from_custom_paths(artifacts: list[dict[str, Any]]) -> None:
    """Put artefacts that the program made elsewhere, and said so, where they belong."""
    for each in artifacts:
        made, place = Path(str(each.get("custom_path") or "")), Path(str(each.get("uri", "")))
        if not each.get("custom_path") or not made.exists() or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if made.is_dir():
            shutil.copytree(made, place)
        else:
            shutil.copy2(made, place)


def _digest(place: Path) -> str:
    """Return the digest of a file, or of everything in a folder with its names; nothing for what is not here."""
    if not place.exists():
        return ""
    total = hashlib.sha256()
    for file in sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]:
        total.update(f"{file.relative_to(place)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            while data := content.read(1 << 20):
                total.update(data)
    return total.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
