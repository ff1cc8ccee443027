"""Where ``gangline submit`` gets its jobs from: options and a command, or a file that options may overrule in part."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gangline.cli import terminal
from gangline.dialects import Translation, document
from gangline.dialects.native import API_VERSION, KIND, PRIORITIES, ShortForm, job_from_short_form, pairs
from gangline.errors import InvalidInputError
from gangline.kinds.registry import kind_named, registered
from gangline.model import DEFAULT_TENANT, JobSpec, QueueName, Tenant
from gangline.sdk.code.active_environment import in_active_environment
from gangline.sdk.loading import load_all, parse
from gangline.settings import Settings

Given = Mapping[str, object]
"""The options that were given, by the names of ``ShortForm``."""

_OVERRULES = ("name", "queue", "priority", "tenant", "labels", "env", "env_files")
"""Options that also go with a file, and overrule what it says; labels and variables are added to the file's."""


def jobs_from_options(words: tuple[str, ...], given: Given, settings: Settings) -> tuple[Translation, ...]:
    """Build the job that the short form means."""
    if "code" in given and "no_code" in given:
        raise InvalidInputError("it does not go with --no-code", field="--code", expected="one of the two")
    known = {item.name for item in fields(ShortForm)}
    arguments = {"tenant": settings.tenant, **{name: value for name, value in given.items() if name in known}}
    arguments["labels"] = pairs(_tuple(given.get("labels")), "--label")
    arguments["env"] = _variables(given)
    arguments["secrets"] = pairs(_tuple(given.get("secrets")), "--secret", form="NAME=SECRET/KEY")
    if "code" not in given and "no_code" not in given and (file := file_in(words)):
        terminal.say(f"shipping the current directory, because '{file}' is in it (--no-code ships nothing)")
        arguments["code"] = "."
    form = ShortForm(command=words, suffix=os.urandom(2).hex(), **arguments)  # type: ignore[arg-type]  # click checked
    job = job_from_short_form(form, sizes=settings.sizes)
    if job.code is not None:
        job = replace(job, code=str(Path(job.code).expanduser().absolute()))
    return (Translation(spec=job),)


def on_this_machine(jobs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    """Let jobs on this machine see the user's Python environment, and say so once."""
    placed = tuple(in_active_environment(job, os.environ) for job in jobs)
    changed = next((after for before, after in zip(jobs, placed, strict=True) if after is not before), None)
    if changed is not None:
        terminal.say(f"using the environment {changed.env.get('VIRTUAL_ENV') or changed.env['CONDA_PREFIX']}")
    return placed


def file_in(words: tuple[str, ...]) -> str | None:
    """The first word of a command that is a file below the current directory: what ``python train.py`` means."""
    relative = (word for word in words if not word.startswith(("/", "-", "~", "..")))
    return next((word for word in relative if os.path.isfile(word)), None)  # noqa: PTH113  # a word may be a whole program


def jobs_from_files(
    files: tuple[str, ...], words: tuple[str, ...], given: Given, settings: Settings
) -> tuple[Translation, ...]:
    """Read the jobs of files, or of standard input, and let options overrule what they may."""
    surplus = sorted(set(given) - set(_OVERRULES))
    if words or surplus:
        option = "COMMAND" if words else f"--{surplus[0].replace('_', '-')}"
        raise InvalidInputError("it does not go with --file", field=option, expected="it in the file")
    jobs = [job for file in files for job in _jobs_in(file, settings)]
    if "name" in given and len(jobs) > 1:
        raise InvalidInputError(f"there are {len(jobs)} jobs", field="--name", expected="a file with one job")
    return tuple(replace(job, spec=_overruled(job.spec, given, settings)) for job in jobs)


def kinds_in(file: str) -> set[str]:
    """Return the kinds of records that a file holds; everything else is a job, or told by whoever reads jobs."""
    if file == "-" or not Path(file).is_file():
        return {KIND}
    group = API_VERSION.partition("/")[0]
    found = set()
    for value in document.parse(Path(file).read_text(encoding="utf-8"), file=file):
        top: Any = value.data if isinstance(value.data, dict) else {}
        version, kind = str(top.get("apiVersion", API_VERSION)), str(top.get("kind", KIND))
        known = kind.lower() in registered() and kind_named(kind.lower()).api_version == version
        found.add(kind if known or version.startswith(group) else KIND)
    return found


def _jobs_in(file: str, settings: Settings) -> tuple[Translation, ...]:
    if file == "-":
        return parse(sys.stdin.read(), file="standard input", directory=Path.cwd(), sizes=settings.sizes)
    return load_all(file, sizes=settings.sizes)


def _overruled(job: JobSpec, given: Given, settings: Settings) -> JobSpec:
    changes: dict[str, object] = {
        "labels": {**job.labels, **pairs(_tuple(given.get("labels")), "--label")},
        "env": {**job.env, **_variables(given)},
    }
    if "name" in given:
        changes["name"] = given["name"]
    if "queue" in given:
        changes["queue"] = QueueName(str(given["queue"]))
    if "priority" in given:
        changes["priority"] = _priority(str(given["priority"]))
    if "tenant" in given or job.tenant == DEFAULT_TENANT:
        changes["tenant"] = Tenant(str(given.get("tenant", settings.tenant)))
    return replace(job, **changes)  # type: ignore[arg-type]  # each value has its field's type


def _variables(given: Given) -> dict[str, str]:
    """Read ``--env-file`` and then ``--env``; a name alone stands for the value it has here."""
    found: dict[str, str] = {}
    for file in _tuple(given.get("env_files")):
        found |= variables_in(file)
    for item in _tuple(given.get("env")):
        if "=" in item:
            found |= pairs((item,), "--env")
        elif item in os.environ:
            found[item] = os.environ[item]
        else:
            raise InvalidInputError(f"'{item}' is not set here", field="--env", expected="NAME=VALUE, or a variable")
    return found


def variables_in(file: str) -> dict[str, str]:
    """Read lines NAME=VALUE as docker and others do: comments, ``export`` and quotes are understood."""
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInputError(f"the file cannot be read: {reason}", file=file, field="--env-file") from error
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip().removeprefix("export ")
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not equals or not name.strip():
            raise InvalidInputError("it is not NAME=VALUE", file=file, line=number, field="--env-file")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found[name.strip()] = value[1:-1] if quoted else value
    return found


def _priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    if not text.isdigit():
        expected = f"{', '.join(PRIORITIES)} or a number"
        raise InvalidInputError(f"'{text}' is not a priority", field="--priority", expected=expected)
    return int(text)


def _tuple(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, tuple) else ()
