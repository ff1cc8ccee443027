"""A Python function as the program of a job: it travels with its module, or with its own text where it has none.

The job's command is a short program that any Python runs, with or without Gangline. What cannot be sent (a lambda, a
function inside another, an open socket, a class of a notebook) is refused here, before anything is submitted.
"""

import ast
import base64
import builtins
import inspect
import json
import pickle
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gangline.errors import InvalidInputError

PAYLOAD = "GANGLINE_FUNCTION"
RETURNED = "return.pickle"
"""The file of results in which the first replica leaves what the function returned."""
RETURNED_MARK = "gangline-return:"
"""What a short return value begins with in the result of that replica: on a cluster files go with their pods."""
_MOST_BYTES = 96 * 1024
_INSTALLED = ("site-packages", "dist-packages")

PROGRAM = """\
import base64, importlib, importlib.util, json, os, pickle, sys, types
told = json.loads(base64.b64decode(os.environ["GANGLINE_FUNCTION"]))
sys.path[:0] = [os.getcwd()]
if told["text"]:
    module = types.ModuleType("gangline_function")
    sys.modules["gangline_function"] = module
    vars(module).update(pickle.loads(base64.b64decode(told["values"])))
    exec(compile(told["text"], "gangline_function.py", "exec"), vars(module))
elif told["file"]:
    place = importlib.util.spec_from_file_location(told["module"], told["file"])
    module = importlib.util.module_from_spec(place)
    sys.modules[told["module"]] = module
    place.loader.exec_module(module)
else:
    module = importlib.import_module(told["module"])
arguments, named = pickle.loads(base64.b64decode(told["arguments"]))
returned = getattr(module, told["name"])(*arguments, **named)
if os.environ.get("GANGLINE_RANK", "0") == "0":
    pickled = pickle.dumps(returned)
    if returned is not None and "RESULT_DIR" in os.environ:
        os.makedirs(os.environ["RESULT_DIR"], exist_ok=True)
        with open(os.path.join(os.environ["RESULT_DIR"], "return.pickle"), "wb") as file:
            file.write(pickled)
    if len(pickled) <= 2000 and "GANGLINE_RESULT" in os.environ:
        with open(os.environ["GANGLINE_RESULT"], "w") as file:
            file.write("gangline-return:" + base64.b64encode(pickled).decode())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What a job needs to call a function."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    code: str | None
    """The directory that holds its module."""


def ship(
    function: Callable[..., object], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
) -> Shipped:
    """Return what calls a function in a job with these arguments; raises InvalidInputError for what cannot be sent."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        raise _refused(function, "is not a function", "a function of a module or a notebook")
    if function.__name__ == "<lambda>":
        raise _refused(function, "is a lambda, which has no name to be found by", "a function with a name (def)")
    _check_closure(function)
    _check_arguments(function, args, dict(kwargs or {}))
    told: dict[str, object] = {"name": function.__name__, "text": "", "file": "", "module": function.__module__}
    main = sys.modules.get("__main__")
    code: str | None = None
    if function.__module__ != "__main__":
        code = _root_of(function)
    elif getattr(main, "__file__", None) and Path(str(main.__file__)).is_file() and not _is_cell(function):  # type: ignore[union-attr]
        script = Path(str(main.__file__)).absolute()  # type: ignore[union-attr]
        told |= {"file": script.name, "module": script.stem}
        code = str(script.parent)
    else:
        text, values = _text_of(function)
        told |= {"text": text, "values": _pickled(values, function, "a variable")}
    told["arguments"] = _pickled((tuple(args), dict(kwargs or {})), function, "an argument")
    payload = base64.b64encode(json.dumps(told).encode()).decode()
    if len(payload) > _MOST_BYTES:
        raise _refused(
            function,
            f"and its arguments are {len(payload) // 1024} KiB",
            f"at most {_MOST_BYTES // 1024} KiB; put data in a file, a store or a volume",
        )
    return Shipped(command=("python", "-c", PROGRAM), env={PAYLOAD: payload}, code=code)


def _is_cell(function: FunctionType) -> bool:
    return not Path(function.__code__.co_filename).is_file()


def _root_of(function: FunctionType) -> str | None:
    """The directory from which a module is imported; None for what is installed, which a job finds for itself."""
    module = sys.modules[function.__module__]
    if not getattr(module, "__file__", None):
        raise _refused(function, f"is of module '{module.__name__}', which has no file", "a module with a file")
    file = Path(str(module.__file__)).absolute()
    depth = module.__name__.count(".") + (file.stem == "__init__")
    root = file.parents[depth]
    return None if any(part in _INSTALLED for part in root.parts) else str(root)


def _check_closure(function: FunctionType) -> None:
    names = function.__code__.co_freevars
    if not names and "<locals>" not in function.__qualname__:
        return
    cells = zip(names, function.__closure__ or (), strict=True)
    held = ", ".join(f"'{name}' ({type(cell.cell_contents).__name__})" for name, cell in cells)
    holds = f" and holds {held}" if held else ""
    raise _refused(
        function, f"is inside another function{holds}", "a function of its own, with all that it needs as arguments"
    )


def _check_arguments(function: FunctionType, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise _refused(function, f"cannot be called so: {error}", str(inspect.signature(function))) from None


def _text_of(function: FunctionType) -> tuple[str, dict[str, object]]:
    """Return the text of a function of a notebook with all it names: imports, other functions, plain values."""
    texts: dict[str, str] = {}
    values: dict[str, object] = {}
    imports: dict[str, str] = {}
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if each.__name__ in texts:
            continue
        texts[each.__name__] = _source_of(each)
        for name in sorted(_names_in(each.__code__)):
            if name not in each.__globals__ or name in texts:
                continue
            value = each.__globals__[name]
            if isinstance(value, ModuleType):
                imports[name] = f"import {value.__name__} as {name}"
            elif isinstance(value, FunctionType) and value.__module__ == "__main__":
                waiting.append(value)
            elif getattr(value, "__module__", None) not in (None, "__main__") and hasattr(value, "__qualname__"):
                imports[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
            elif isinstance(value, type):
                raise _refused(function, f"uses the class '{name}' of the notebook", "a class in a module of its own")
            else:
                values[name] = value
    return "\n\n".join([*sorted(imports.values()), *reversed(texts.values())]), values


def _source_of(function: FunctionType) -> str:
    """The text of a function without its decorators: they are for whoever submits it."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise _refused(function, "has no text that can be read", "a function of a file or a notebook's cell") from error
    definition = next(each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef))
    return "\n".join(text.splitlines()[definition.lineno - 1 :])


def _names_in(code: CodeType) -> set[str]:
    """Every name that a function, or one inside it, looks up outside."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {name for name in code.co_names if not hasattr(builtins, name)}.union(*map(_names_in, inner))


def _pickled(value: Any, function: FunctionType, what: str) -> str:
    """Write values so that another process can read them; refuses those that it could not."""
    try:
        raw = pickle.dumps(value)
    except Exception as error:
        raise _refused(
            function, f"has {what} that cannot be sent: {error}", "plain values, arrays, names of files"
        ) from error
    if b"__main__" in raw:
        raise _refused(
            function,
            f"has {what} of a class or function of the notebook or script",
            "plain values, or classes of a module",
        )
    return base64.b64encode(raw).decode()


def _refused(function: object, problem: str, expected: str) -> InvalidInputError:
    name = getattr(function, "__qualname__", None) or repr(function)
    return InvalidInputError(f"'{name}' {problem}", field="function", expected=expected)
