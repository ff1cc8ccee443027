"""One small pipeline for each feature of the language, compiled into the folder given. Run where kfp is installed."""
# ruff: noqa: UP006, UP035, B006, SIM117, PT018, PTH123, RUF013  -- as users of kfp write

import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

from kfp import compiler, dsl
from kfp.dsl import Collected, Dataset, Input, OneOf, Output, PipelineTaskFinalStatus

component = dsl.component(base_image="python:3.11", packages_to_install=[])


@component
def echo(text: str) -> str:
    return text


@component
def add(a: int, b: int = 1) -> int:
    assert isinstance(a, int) and isinstance(b, int), (a, b)
    return a + b


@component
def values(
    i: int = 3,
    f: float = 0.5,
    s: str = 'say "hi"\n😀',
    b: bool = True,
    xs: list = [1, "two", 2.5],
    d: dict = {"n": 3, "in": {"x": [1]}},
) -> NamedTuple("Out", [("i", int), ("f", float), ("s", str), ("b", bool), ("xs", list), ("d", dict)]):
    return (i, f, s, b, xs, d)


@component
def same(i: int, f: float, s: str, b: bool, xs: list, d: dict) -> str:
    import json

    return json.dumps([i, f, s, b, xs, d])


@component
def numbers(most: int) -> List[int]:
    return list(range(most))


@component
def records() -> List[Dict]:
    return [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@component
def total(xs: List[int]) -> int:
    return sum(xs)


@component
def nested_total(xs: List[List[int]]) -> int:
    return sum(map(sum, xs))


@component
def write(n: int, data: Output[Dataset]):
    with open(data.path, "w") as file:
        file.write(str(n))
    data.metadata["rows"] = n


@component
def read(data: Input[Dataset]) -> str:
    with open(data.path) as file:
        return f"{file.read()} {data.metadata['rows']}"


@component
def read_all(data: Input[List[Dataset]]) -> str:
    return ",".join(open(each.path).read() for each in data)


@component
def fail(why: str):
    raise SystemExit(why)


@component
def fail_first(folder: str):
    from pathlib import Path

    tries = Path(folder) / "tries"
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) < 3:
        raise SystemExit("not yet")


@component
def note_end(folder: str, status: PipelineTaskFinalStatus):
    import json
    from pathlib import Path

    Path(folder, "end").write_text(json.dumps([status.state, status.error_message, status.pipeline_task_name]))


@dsl.container_component
def shell(word: str, out: dsl.OutputPath(str), more: str = None):
    return dsl.ContainerSpec(
        image="alpine",
        command=["sh", "-c", 'mkdir -p "$(dirname "$1")"; printf "%s" "$*" > "$1"', "sh"],
        args=[
            out,
            dsl.ConcatPlaceholder(["word=", word]),
            dsl.IfPresentPlaceholder("more", ["--more", more], ["none"]),
        ],
    )


@dsl.pipeline(name="values")
def every_type(i: int = 7) -> str:
    made = values(i=i).outputs
    return same(i=made["i"], f=made["f"], s=made["s"], b=made["b"], xs=made["xs"], d=made["d"]).output


@dsl.pipeline(name="texts")
def texts(n: int = 3) -> str:
    return echo(text=f"n is {add(a=n).output}, of {dsl.PIPELINE_JOB_NAME_PLACEHOLDER}").output


@dsl.pipeline(name="container")
def container(word: str = "hello") -> str:
    return shell(word=word).outputs["out"]


@dsl.pipeline(name="artifacts")
def artifacts() -> str:
    return read(data=write(n=5).outputs["data"]).output


@dsl.pipeline(name="conditions")
def conditions(n: int = 3) -> str:
    first = add(a=n)
    with dsl.If(first.output == 4):
        four = echo(text="four")
    with dsl.Elif(first.output > 4):
        more = echo(text="more")
    with dsl.Else():
        less = echo(text="less")
    return echo(text=OneOf(four.output, more.output, less.output)).output


@dsl.pipeline(name="loops")
def loops(items: list = [1, 2, 3]) -> int:
    with dsl.ParallelFor([{"a": 1}, {"a": 2}], parallelism=1) as item:
        add(a=item.a)
    with dsl.ParallelFor(items) as item:
        add(a=item)
    with dsl.ParallelFor(numbers(most=3).output) as item:
        one = add(a=item)
    with dsl.ParallelFor(records().output) as item:
        echo(text=item.b)
    return total(xs=Collected(one.output)).output


@dsl.pipeline(name="nested-loops")
def nested_loops() -> int:
    with dsl.ParallelFor([1, 2]) as outer:
        with dsl.ParallelFor([10, 20]) as inner:
            one = add(a=outer, b=inner)
    return nested_total(xs=Collected(one.output)).output


@dsl.pipeline(name="collected-artifacts")
def collected_artifacts() -> str:
    with dsl.ParallelFor([1, 2, 3]) as item:
        made = write(n=item)
    return read_all(data=Collected(made.outputs["data"])).output


@dsl.pipeline(name="inner")
def inner(n: int) -> int:
    return add(a=add(a=n).output).output


@dsl.pipeline(name="sub-graphs")
def sub_graphs(n: int = 1) -> int:
    return add(a=inner(n=inner(n=n).output).output).output


@dsl.pipeline(name="exit-handler")
def exit_handler(folder: str):
    with dsl.ExitHandler(note_end(folder=folder)):
        fail(why="the disk is full")
        echo(text="meanwhile")


@dsl.pipeline(name="retries")
def retries(folder: str):
    fail_first(folder=folder).set_retry(3, backoff_duration="0s")


@dsl.pipeline(name="order")
def order() -> str:
    last = echo(text="last")
    last.after(echo(text="first"))
    return last.output


@component
def defaulted(text: str = "a default") -> str:
    return text


@component
def maybe(fails: bool) -> str:
    if fails:
        raise SystemExit("as asked")
    return "made"


@dsl.pipeline(name="ignored-failure")
def ignored_failure() -> str:
    return defaulted(text=maybe(fails=True).output).ignore_upstream_failure().output


@dsl.pipeline(name="importer")
def importer(place: str) -> str:
    found = dsl.importer(artifact_uri=place, artifact_class=Dataset, metadata={"rows": "5"})
    return read(data=found.output).output


@dsl.pipeline(name="resources")
def resources() -> str:
    return echo(text="x").set_cpu_limit("500m").set_memory_limit("128Mi").set_caching_options(False).output


@dsl.pipeline(name="nested-conditions")
def nested_conditions(n: int = 3) -> str:
    with dsl.If(n > 1):
        found = echo(text="above one")
        with dsl.If(found.output != "no"):
            with dsl.If(n == 4):
                fail(why="four is not three")
            with dsl.Else():
                echo(text="not four")
    with dsl.Else():
        other = echo(text="below")
    return echo(text=OneOf(found.output, other.output)).output


@component
def describe(n: int, text: str = "none", more: Dict = None) -> str:
    return f"{n} {text} {more}"


@dsl.pipeline(name="optional")
def optional(n: int = 3, text: str = None) -> str:
    return describe(n=n, text="given", more={"x": [1, 2.5, True]}).output


@component
def write_folder(data: Output[Dataset]):
    from pathlib import Path

    for number in range(3):
        Path(data.path, "deep").mkdir(parents=True, exist_ok=True)
        Path(data.path, "deep", f"{number}.txt").write_text(str(number))


@component
def read_folder(data: Input[Dataset]) -> str:
    from pathlib import Path

    return ",".join(file.read_text() for file in sorted(Path(data.path).rglob("*.txt")))


@dsl.pipeline(name="folders")
def folders() -> str:
    return read_folder(data=write_folder().outputs["data"]).output


@dsl.pipeline(name="one-of-artifacts")
def one_of_artifacts(n: int = 3) -> str:
    with dsl.If(n > 2):
        more = write(n=7)
    with dsl.Else():
        less = write(n=1)
    return read(data=OneOf(more.outputs["data"], less.outputs["data"])).output


@component
def shout(status: PipelineTaskFinalStatus):
    print("ended:", status.state, status.error_message)


@dsl.pipeline(name="told-of-failure")
def told_of_failure():
    with dsl.ExitHandler(shout()):
        fail(why="the disk is full")


@dsl.pipeline(name="loop-of-graphs")
def loop_of_graphs() -> int:
    with dsl.ParallelFor([1, 2, 3], parallelism=2) as item:
        each = inner(n=item)
    return total(xs=Collected(each.output)).output


if __name__ == "__main__":
    for each in [value for value in globals().values() if isinstance(value, dsl.graph_component.GraphComponent)]:
        compiler.Compiler().compile(each, str(Path(sys.argv[1]) / f"{each.name}.yaml"))
