"""Submitting by field: a form for a job, or for a kind whose fields can be given one by one.

The fields become the file that the editor would take, so both refuse the same with the same words; a wrong field is
marked. The file can be looked at, and changed, before it is submitted.
"""

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from aiohttp import web

from gangline.api.operation import Operation, get, post
from gangline.api.rest.context import context_of
from gangline.dialects.native import job_to_plain
from gangline.dialects.native.short_form import ShortForm, job_from_short_form, pairs
from gangline.errors import GanglineError, InvalidInputError, NotFoundError
from gangline.kinds import AnyKind, all_kinds
from gangline.model import Framework
from gangline.model.team.access import Right
from gangline.web.frame import Frame, address, form, show, tenant_here
from gangline.web.html import Element, Node, h
from gangline.web.kind_words import one_of
from gangline.web.pages.submit import editor_page, take_in

_JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field: how it is called in the form and by errors, and what is in it at first."""

    name: str
    text: str
    value: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()


_JOB_FIELDS = (
    _Field(name="name", text="Name; made from the command if empty"),
    _Field(name="command", text="Command", value="python3 train.py", required=True),
    _Field(name="workers", text="Replicas", value="1"),
    _Field(name="cpu", text="CPUs of each: 2, 500m", value="1"),
    _Field(name="memory", text="Memory of each: 4Gi, 512Mi"),
    _Field(name="gpus", text="GPUs of each"),
    _Field(name="framework", text="Framework", value="none", choices=tuple(str(each) for each in Framework)),
    _Field(name="queue", text="Queue"),
    _Field(name="priority", text="Priority: a number, or low, normal, high"),
    _Field(name="image", text="Image, on a cluster"),
    _Field(name="env", text="Variables: NAME=VALUE, apart by spaces"),
)


def kinds_by_field() -> list[AnyKind]:
    """The kinds that can be made by field."""
    return [kind for kind in all_kinds() if kind.format.options and not kind.foreign]


async def page(request: web.Request) -> web.Response:
    """Show the form."""
    kind = _kind(request)
    return _shown(request, kind, {each.name: each.value for each in _fields(kind)}, None)


async def submit(request: web.Request) -> web.StreamResponse:
    """Take the fields in, show them as a file, or show what is wrong with them."""
    kind, posted = _kind(request), await request.post()
    given = {each.name: str(posted.get(each.name, "")).strip() for each in _fields(kind)}
    try:
        text = _job_file(given) if kind is None else _record_file(request, kind, given)
        if posted.get("as") == "file":
            return editor_page(request, text, None)
        where = await take_in(context_of(request), tenant_here(request), text)
    except GanglineError as error:
        return _shown(request, kind, given, error)
    raise web.HTTPSeeOther(where)


def _kind(request: web.Request) -> AnyKind | None:
    name = request.query.get("kind", _JOB)
    found = next((each for each in kinds_by_field() if each.name == name), None)
    if found is None and name != _JOB:
        raise NotFoundError("form", name)
    return found


def _fields(kind: AnyKind | None) -> tuple[_Field, ...]:
    if kind is None:
        return _JOB_FIELDS
    own = tuple(
        _Field(name=each.attribute, text=f"{each.name.removeprefix('--')}: {each.text}", required=each.required)
        for each in kind.format.options
    )
    return (_Field(name="name", text="Name", required=True), *own)


def _job_file(given: Mapping[str, str]) -> str:
    try:
        words = tuple(shlex.split(given["command"]))
        variables = tuple(shlex.split(given["env"]))
    except ValueError as error:
        raise InvalidInputError(f"a quotation mark is not closed: {error}", field="command") from error
    if not given["workers"].isdecimal():
        raise InvalidInputError(f"'{given['workers']}' is not a number", field="--workers", expected="1 or more")
    texts = ("name", "queue", "framework", "image", "cpu", "memory", "gpus")
    made = ShortForm(
        command=words,
        suffix=secrets.token_hex(2),
        workers=int(given["workers"]),
        priority=int(given["priority"]) if given["priority"].isdecimal() else given["priority"] or None,
        env=pairs(variables, "--env"),
        **{name: given[name] or None for name in texts},  # type: ignore[arg-type]  # fields of text
    )
    return _text(job_to_plain(job_from_short_form(made)))


def _record_file(request: web.Request, kind: AnyKind, given: Mapping[str, str]) -> str:
    options = {each.attribute: each for each in kind.format.options}
    values = {name: options[name].read(text) for name, text in given.items() if text and name in options}
    for option in options.values():
        if option.required and option.attribute not in values:
            raise InvalidInputError("it is missing", field=option.name, expected=option.text)
    return _text(kind.format.write(kind.owned_by(kind.spec(name=given["name"], **values), tenant_here(request))))


def _text(plain: object) -> str:
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def _shown(
    request: web.Request, kind: AnyKind | None, given: Mapping[str, str], error: GanglineError | None
) -> web.Response:
    tenant, name = tenant_here(request), _JOB if kind is None else kind.name
    fields = _fields(kind)
    wrong = _wrong_field(error, fields)
    problem = None if error is None else h.p(str(error), cls="error", role="alert", id="problem")
    others = [(_JOB, _JOB), *((each.name, one_of(each)) for each in kinds_by_field())]
    return show(
        request,
        Frame(
            title=f"New {_JOB if kind is None else one_of(kind)}",
            crumbs=(("Submit", address(tenant, "submit")),),
            status=200 if error is None else 422,
            still=True,
            before=(
                problem,
                form(
                    request,
                    address(tenant, "submit", "fields", kind=name),
                    [_input(each, given.get(each.name, ""), wrong=each.name == wrong) for each in fields],
                    h.p(
                        h.button("Submit", cls="primary", name="as", value="record"),
                        " ",
                        h.button("Show as a file", name="as", value="file"),
                    ),
                    cls="fields",
                ),
                h.p(
                    "By field: ",
                    [(h.a(word, href=address(tenant, "submit", "fields", kind=each)), " ") for each, word in others],
                ),
            ),
        ),
    )


def _wrong_field(error: GanglineError | None, fields: tuple[_Field, ...]) -> str:
    """The field that an error is about: errors say it as an option or as a path in the file."""
    said = (error.field or "") if isinstance(error, InvalidInputError) else ""
    last = said.removeprefix("--").rpartition(".")[2].replace("-", "_").lower()
    names = {each.name for each in fields}
    return next((each for each in (last, f"{last}_seconds") if each in names), "")


def _input(field: _Field, value: str, *, wrong: bool) -> Element:
    marked: dict[str, str | None] = {"aria_invalid": "true", "aria_describedby": "problem"} if wrong else {}
    where = f"field-{field.name}"
    given: Node
    if field.choices:
        options = [h.option(each, value=each, selected=each == value or None) for each in field.choices]
        given = h.select(options, id=where, name=field.name, **marked)
    else:
        needed = field.required or None
        given = h.input(id=where, name=field.name, value=value, size=40, required=needed, autocomplete="off", **marked)
    return h.p(h.label(field.text, for_=where), h.br(), given)


def operations_here() -> list[Operation]:
    """The routes of this module."""
    where = "/tenants/{tenant}/submit/fields"
    return [get(Right.WRITE, where, page), post(Right.WRITE, where, submit)]
