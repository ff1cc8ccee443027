"""Pipelines as users of kfp write them, one for each thing that its samples show. Run where kfp is installed."""
# ruff: noqa: UP006, UP035, PTH103, PTH118, PTH123, PTH208, TID251  -- as users of kfp write

import os
from typing import List

from kfp import dsl
from kfp.dsl import Dataset, Input, Output, PipelineTaskFinalStatus

component = dsl.component(base_image=os.environ.get("STEP_IMAGE", "python:3.11"))


@component
def toss(side: str) -> str:
    return side


@component
def say(text: str) -> str:
    print(text)
    return text


@component
def between(low: int, high: int) -> int:
    return (low + high) // 2


@component
def some_numbers(count: int) -> List[int]:
    return [number * number for number in range(count)]


@component
def mark(folder: str, name: str) -> str:
    import time
    from pathlib import Path

    place = Path(folder)
    (place / f"{name}.began").write_text(str(time.time()))
    running = sum(1 for each in place.glob("*.began") if not (place / f"{each.stem}.ended").exists())
    time.sleep(0.3)
    (place / f"{name}.ended").write_text(str(time.time()))
    (place / f"{name}.running").write_text(str(running))
    return name


@component
def fail(why: str):
    raise RuntimeError(why)


@component
def fail_until(folder: str, times: int) -> int:
    from pathlib import Path

    tries = len(list(Path(folder).glob("try-*"))) + 1
    Path(folder, f"try-{tries}").touch()
    if tries <= times:
        raise RuntimeError(f"try {tries} fails")
    return tries


@component
def note_end(folder: str, status: PipelineTaskFinalStatus):
    from pathlib import Path

    Path(folder, "status").write_text(f"{status.state} {status.pipeline_task_name}")


@component
def list_folder(folder: Input[Dataset]) -> str:
    import os

    return ",".join(sorted(os.listdir(folder.path)))


@component
def write_files(files: int, out: Output[Dataset]):
    import os

    os.makedirs(out.path, exist_ok=True)
    for number in range(files):
        with open(os.path.join(out.path, f"{number}.txt"), "w") as file:
            file.write(str(number))


@dsl.pipeline(name="conditions")
def conditions(side: str = "heads") -> str:
    tossed = toss(side=side)
    with dsl.If(tossed.output == "heads"):
        won = say(text="won")
    with dsl.Else():
        lost = say(text="lost")
    return dsl.OneOf(won.output, lost.output)


@dsl.pipeline(name="nested conditions")
def nested_conditions(side: str = "heads", low: int = 0, high: int = 9):
    tossed = toss(side=side)
    with dsl.If(tossed.output == "heads"):
        number = between(low=low, high=high)
        with dsl.If(number.output > 5):
            say(text="large").set_display_name("large")
        with dsl.If(number.output <= 5):
            say(text="small").set_display_name("small")
    with dsl.If(tossed.output != "heads"):
        say(text="lost")


@dsl.pipeline(name="loop static")
def loop_static(folder: str):
    with dsl.ParallelFor(["a", "b", "c"]) as item:
        mark(folder=folder, name=item)


@dsl.pipeline(name="loop parameter")
def loop_parameter(folder: str, names: List[str] = ["x", "y"]):  # noqa: B006
    with dsl.ParallelFor(names) as item:
        mark(folder=folder, name=item)


@component
def total(numbers: List[int]) -> int:
    return sum(numbers)


@component
def double(number: int) -> int:
    return 2 * number


@dsl.pipeline(name="loop output")
def loop_output(count: int = 4) -> int:
    with dsl.ParallelFor(some_numbers(count=count).output) as item:
        doubled = double(number=item)
    return total(numbers=dsl.Collected(doubled.output)).output


@dsl.pipeline(name="parallelism")
def parallelism(folder: str):
    with dsl.ParallelFor(["1", "2", "3", "4", "5", "6"], parallelism=2) as item:
        mark(folder=folder, name=item).set_caching_options(False)


@dsl.pipeline(name="exit handler")
def exit_handler(folder: str, why: str = "the disk is full"):
    with dsl.ExitHandler(note_end(folder=folder), name="guarded"):
        fail(why=why)


@dsl.pipeline(name="retry")
def retry(folder: str) -> int:
    return fail_until(folder=folder, times=2).set_retry(num_retries=3).output


@dsl.pipeline(name="execution order")
def execution_order(folder: str):
    first = mark(folder=folder, name="first")
    second = mark(folder=folder, name="second").after(first)
    mark(folder=folder, name="third").after(first, second)


@dsl.pipeline(name="output a directory")
def output_a_directory(files: int = 3) -> str:
    return list_folder(folder=write_files(files=files).outputs["out"]).output


@dsl.pipeline(name="resource spec")
def resource_spec() -> str:
    step = say(text="with limits").set_cpu_limit("500m").set_cpu_request("100m")
    return step.set_memory_limit("256Mi").set_memory_request("64Mi").output


@component
def wait(folder: str):
    import time
    from pathlib import Path

    Path(folder, "waiting").touch()
    time.sleep(600)


@dsl.pipeline(name="forever")
def forever(folder: str):
    wait(folder=folder)


@dsl.pipeline(name="fails once")
def fails_once(folder: str) -> int:
    mark(folder=folder, name="kept")
    return fail_until(folder=folder, times=1).set_caching_options(False).output
