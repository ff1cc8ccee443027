"""The executors of a compiled pipeline: commands with their environment and needs, and importers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gangline.dialects import quantities
from gangline.dialects.native.amounts import GPU_NAMES
from gangline.dialects.value import Value
from gangline.model import Resources
from gangline.pipelines import Container, Importer
from gangline.pipelines.graph import Claim, Constant, Definition, FromInput
from gangline.pipelines.placeholders import inputs_named
from gangline.pipelines.values import whole

_STUBS = "argostub/"
_KNOWN = {
    "container": ("image", "command", "args", "env", "resources"),
    "resources": (
        *("cpuLimit", "cpuRequest", "memoryLimit", "memoryRequest", "accelerator"),
        *("resourceCpuLimit", "resourceCpuRequest", "resourceMemoryLimit", "resourceMemoryRequest"),
    ),
    "importer": ("artifactUri", "typeSchema", "reimport", "metadata"),
}


def read_executor(value: Value, outputs: Mapping[str, Definition]) -> Container | Importer | Claim:
    """Read one executor. Volumes come and go by images that stand for that and do not exist."""
    found = value.fields()
    if "container" in found:
        image = found["container"].fields().get("image")
        stub = str(image.data).removeprefix(_STUBS) if image is not None else ""
        return Claim(stub) if stub in set(Claim) else _container(found["container"])
    if "importer" in found:
        return _importer(found["importer"], outputs)
    raise value.wrong("this executor cannot be run", expected="container or importer")


def ignored(value: Value) -> Iterator[str]:
    """Return where an executor says something that means nothing here."""
    for name, known in _KNOWN.items():
        found = value.fields()
        inside = found["container"].fields() if name == "resources" and "container" in found else found
        if name in inside:
            yield from (each.path for key, each in inside[name].fields().items() if key not in known)


def deciding_inputs(value: Value) -> set[str]:
    """Return the inputs that decide image, variables and amounts: tasks give them; components need not know them."""
    container = value.fields().get("container")
    found = container.fields() if container is not None else {}
    parts = [found[part] for part in ("image", "env", "resources") if part in found]
    return {name for part in parts for name in inputs_named(_plain(part.data))}


def _plain(data: object) -> str:
    """Return all texts of a value as one."""
    inside = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else None
    return str(data) if inside is None else " ".join(map(_plain, inside))


def _container(value: Value) -> Container:
    found = value.fields()
    words = [word.text_or_number() for part in ("command", "args") if part in found for word in found[part].items()]
    if not words:
        raise value.missing("command", "a command: the entry point of an image is not known here")
    env = found["env"].items() if "env" in found else []
    return Container(
        command=tuple(words),
        image=found["image"].text() if "image" in found else None,
        env={each.need("name", "the name of a variable").text(): _variable(each) for each in env},
        resources=_resources(found["resources"]) if "resources" in found else None,
    )


def _variable(value: Value) -> str:
    found = value.fields()
    return found["value"].text_or_number() if "value" in found else ""


Put = Callable[[str], str]


def _resources(value: Value) -> Resources | Callable[[Put], Resources]:
    """Read amounts, at once if no input decides any."""
    found = value.fields()
    if "{{$" not in _plain(value.data):
        return _amounts(found, lambda text: text)
    return lambda put_in: _amounts(found, put_in)


def _amounts(found: Mapping[str, Value], put_in: Put) -> Resources:
    """Read amounts. Older compilers write plain numbers, of memory in GB."""
    cpu = _amount(found, ("resourceCpuRequest", "resourceCpuLimit", "cpuRequest", "cpuLimit"), put_in)
    memory = _amount(found, ("resourceMemoryRequest", "resourceMemoryLimit"), put_in)
    memory = memory or _amount(found, ("memoryRequest", "memoryLimit"), lambda text: f"{put_in(text)}G")
    gpus, others = _accelerators(found["accelerator"].fields() if "accelerator" in found else {}, put_in)
    return Resources(
        cpu_millis=cpu.converted(quantities.cpu_millis, quantities.CPU_FORM) if cpu else 0,
        memory_mib=memory.converted(quantities.memory_mib, quantities.MEMORY_FORM) if memory else 0,
        gpu_millis=gpus,
        extended=others,
    )


def _accelerators(found: Mapping[str, Value], put_in: Put) -> tuple[int, dict[str, int]]:
    """Read GPUs, or other devices by the name of their resource; a name without a plugin's is that of a GPU."""
    count = _amount(found, ("resourceCount", "count"), put_in)
    kind = _amount(found, ("resourceType", "type"), put_in)
    if count is None:
        return 0, {}
    name = "" if kind is None else str(kind.data)
    if "/" in name and name not in GPU_NAMES:
        return 0, {name: int(count.converted(float, "a number of devices"))}
    return count.converted(quantities.gpu_millis, "a number of GPUs"), {}


def _amount(found: Mapping[str, Value], names: tuple[str, ...], put_in: Put) -> Value | None:
    """Return the first that is given, with inputs put in; an input without a value gives none."""
    given = (replace(found[name], data=put_in(str(found[name].data))) for name in names if name in found)
    return next((each for each in given if each.data), None)


def _importer(value: Value, outputs: Mapping[str, Definition]) -> Importer:
    found = value.fields()
    uri = value.need("artifactUri", "an address")
    constant = uri.fields().get("constant")
    source = Constant(constant.data) if constant else FromInput(uri.need("runtimeParameter", "an input").text())
    metadata = whole(found["metadata"].data) if "metadata" in found else {}
    if not outputs:
        raise value.wrong("the importer has no output", expected="an artefact in outputDefinitions")
    return Importer(uri=source, output=next(iter(outputs)), metadata=metadata)
