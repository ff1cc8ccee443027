"""Looks at the addresses of a job's data, for every engine: what no mover could read or write is told before it runs.

Called when a job is submitted, and again before it starts: records also come from plans and from other tools. What an
address leads to is not looked at here; much of it does not exist yet.
"""

import re

from gangline.data.addresses import Address, AddressError, parse
from gangline.errors import InvalidInputError
from gangline.model import JobSpec
from gangline.model.identity import check_name

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_DIRECTORIES = ("DATA_DIR", "RESULT_DIR", "CHECKPOINT_DIR")
_ONLY_READ = ("http", "https", "job")
_WRITABLE = "an address that can be written, such as s3://bucket/$JOB_NAME"


def check_addresses(spec: JobSpec) -> None:
    """Raise InvalidInputError for the first address that data could not come from, or go to."""
    for number, move in enumerate(spec.inputs):
        _read(spec, move.source, f"data.inputs[{number}].from")
        target = _read(spec, move.target, f"data.inputs[{number}].to")
        if target.scheme != "file":
            problem = f"{move.target} is not a place of a replica"
            raise InvalidInputError(problem, field=f"data.inputs[{number}].to", expected="$DATA_DIR, or below")
    for number, move in enumerate(spec.outputs):
        where = f"data.outputs[{number}]"
        _read(spec, move.source, f"{where}.from")
        _check_written(_read(spec, move.target, f"{where}.to"), f"{where}.to")
    if spec.checkpoints is not None:
        _read(spec, spec.checkpoints.to, "checkpoints.to")


def _check_written(address: Address, where: str) -> None:
    if address.scheme in _ONLY_READ:
        raise InvalidInputError(f"nothing can be stored at {address.text}", field=where, expected=_WRITABLE)
    if address.version or address.alias:
        problem = f"{address.text}: a job writes files to model://NAME, which become its next version"
        raise InvalidInputError(problem, field=where)
    if address.scheme == "model":
        check_name(address.place, where)


def _read(spec: JobSpec, text: str, where: str) -> Address:
    """Read an address as an engine will, with the variables that it fills in."""
    known = {"JOB_NAME": spec.name, **{name: f"/{name}" for name in _DIRECTORIES}}
    try:
        address = parse(_REFERENCE.sub(lambda match: known.get(match[1] or match[2], match[0]), text))
        if address.scheme == "file":
            address.local_path()
    except AddressError as error:
        raise InvalidInputError(str(error), field=where) from error
    return address
