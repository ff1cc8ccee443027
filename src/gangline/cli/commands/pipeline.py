"""``gangline pipeline``."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from click.core import ParameterSource

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.connection.kubeconfig import read_endpoint
from gangline.cli.following.pipeline import follow_run
from gangline.cli.input.options import Output, complete_files, output_option, tenant_option
from gangline.cli.kind_commands import add_commands, edit_fields, kind_group, print_documents
from gangline.cli.output import formatting
from gangline.cli.output.documents import json_text, yaml_text
from gangline.cli.output.drawings.pipeline_picture import write_drawing
from gangline.cli.output.drawings.pipeline_tree import tree_lines
from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.dialects.kfp import simple_name
from gangline.dialects.pipeline import read_graph, remarks_of
from gangline.dialects.quantities import seconds
from gangline.errors import ConflictError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.kinds.pipeline import PIPELINE, check_arguments, graph_of, is_native_file, makes_artifacts, run_name
from gangline.kinds.schedule import SCHEDULE
from gangline.kinds.template import RUN_EXPERIMENT, TEMPLATE, TEMPLATE_VERSION
from gangline.model import DEFAULT_QUEUE, QueueName, Tenant
from gangline.model.kinds.pipeline import PipelineRun, PipelineSpec
from gangline.model.kinds.schedule import ScheduleSpec
from gangline.pipelines import Graph, ParameterType, State
from gangline.pipelines.graph import ArtifactDefinition, JobTemplate
from gangline.pipelines.needs import beyond
from gangline.sdk import Client
from gangline.sdk.loading import file_text, parse_records, with_components, with_files

_run = click.argument("run", metavar="NAME")
_file = click.option(
    "-f",
    "--file",
    required=True,
    metavar="FILE",
    help="The pipeline or component; '-' is standard input.",
    shell_complete=complete_files,
)
_parameters = click.option(
    "-p", "--parameter", "given", multiple=True, metavar="NAME=VALUE", help="A value for an input; repeatable."
)
_SUFFIX_LETTERS = 5
_MOST_EXPLAINED = 5


@click.group("pipeline")
def command() -> None:
    """Run pipelines: each step of the graph is a job.

    \b
    gangline pipeline run -f pipeline.yaml -p rate=0.1 --follow
    gangline pipeline get NAME
    """


@command.command("run")
@_file
@_parameters
@click.option("--name", metavar="NAME", help="Call the run this; else the pipeline's name with a few letters.")
@click.option("--queue", metavar="QUEUE", default=str(DEFAULT_QUEUE), show_default=True, help="The queue of all steps.")
@click.option("--experiment", metavar="NAME", default="", help="Group the run with others of this experiment.")
@click.option("--no-cache", is_flag=True, help="Run every step, also where an earlier run has its outputs.")
@click.option("--reuse", metavar="AGE", help="Reuse only outputs that are not older than this, for example 7d.")
@click.option("--root", metavar="ADDRESS", help="Store artefacts here, for example s3://bucket/runs or pvc://claim.")
@click.option("--dry-run", is_flag=True, help="Print the run as it is understood, and send nothing.")
@click.option("--follow", "following", is_flag=True, help="Show the steps until the end; exits with 0 if it succeeded.")
@tenant_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    file: str,
    given: tuple[str, ...],
    name: str | None,
    queue: str,
    experiment: str,
    no_cache: bool,
    reuse: str | None,
    root: str | None,
    dry_run: bool,
    following: bool,
    tenant: str | None,
) -> int:
    """Run a pipeline: our own steps, what the kfp package compiled, or a component of version 1."""
    spec = _spec(file, _text(file), given, name, on_cluster=bool(chosen_settings(ctx).context))
    changes: dict[str, Any] = {"tenant": Tenant(_owner(ctx, tenant)), "queue": QueueName(queue)}
    if reuse is not None:
        changes["reuse_seconds"] = _age(reuse)
    if root is not None:
        changes["root"] = root
    spec = replace(spec, cache=spec.cache and not no_cache, experiment=experiment, **changes)
    if dry_run:
        click.echo(yaml_text(PIPELINE.format.write(spec)))
        return 0
    if chosen_settings(ctx).context and not spec.root and makes_artifacts(graph_of(spec.documents_json)):
        raise InvalidInputError(
            "the steps make artefacts, and pods take theirs with them",
            field="--root",
            expected="an address to store them",
        )
    client = connect(ctx, tenant=spec.tenant)
    made = client.records(PIPELINE).create(spec)
    _say_what_is_lacking(ctx, client, graph_of(spec.documents_json))
    click.echo(made.name)
    if following:
        return follow_run(client, made.name)
    terminal.say(f"follow it with: {spoken(ctx, 'pipeline get -w', made.name, tenant=spec.tenant)}")
    return 0


def _owner(ctx: click.Context, tenant: str | None) -> str:
    return tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant


def _say_what_is_lacking(ctx: click.Context, client: Client, graph: Graph) -> None:
    """Say which steps ask for more than any node has. Whose rights do not include looking at nodes is told nothing."""
    try:
        machines = [node.capacity for node in client.nodes()]
    except PermissionDeniedError:
        return
    jobs = any(isinstance(each.body, JobTemplate) for each in graph.components.values())
    ends = "it waits" if jobs or chosen_settings(ctx).context else "it runs without"
    for sentence in beyond(graph, machines):
        terminal.say(f"{sentence}, which no node has; {ends}")


def _age(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise InvalidInputError(f"'{text}' {error}", field="--reuse", expected="a duration, for example 7d") from None


def _spec(file: str, text: str, given: tuple[str, ...], name: str | None, *, on_cluster: bool) -> PipelineSpec:
    documents = document.parse(text, file=file)
    if is_native_file(documents[0]):
        steps = with_files(PIPELINE, documents[0], Path(file).parent).fields()["spec"]
        for remark in dict.fromkeys(remarks_of(steps, on_cluster=on_cluster)):
            terminal.say(remark)
        (spec,) = parse_records(PIPELINE, text, file=file, directory=Path(file).parent)
        return _with_arguments(spec, graph_of(spec.documents_json), given, name)
    documents = (with_components(documents[0], file), *documents[1:])
    graph = read_graph(documents)
    if graph.notes:
        terminal.say(f"means nothing here and is passed over: {', '.join(graph.notes)}")
    made = PipelineSpec(name="unnamed", documents_json=compact_json([each.data for each in documents]))
    return _with_arguments(made, graph, given, name)


def _with_arguments(spec: PipelineSpec, graph: Graph, given: tuple[str, ...], name: str | None) -> PipelineSpec:
    arguments = {**json.loads(spec.arguments_json), **_arguments(graph, given)}
    check_arguments(graph, arguments)
    chosen = name or run_name(graph, uuid4().hex[:_SUFFIX_LETTERS])
    return replace(spec, name=chosen, arguments_json=compact_json(arguments))


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else file_text(Path(file))


def _arguments(graph: Graph, given: tuple[str, ...]) -> dict[str, Any]:
    """Read what was typed: text is taken as it is, everything else is JSON."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise InvalidInputError(f"'{each}' has no '='", field="--parameter", expected="NAME=VALUE")
        name = name if name in graph.root.inputs else simple_name(name)
        definition = graph.root.inputs.get(name)
        if isinstance(definition, ArtifactDefinition):
            found[name] = str(Path(text).absolute()) if Path(text).exists() else _json(text)
            continue
        is_text = definition is not None and definition.type is ParameterType.STRING
        found[name] = text if is_text else _json(text)
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@command.command("get")
@_run
@click.option("-w", "--watch", is_flag=True, help="Go on until its end; exits with 0 if it succeeded.")
@click.option("--svg", metavar="FILE", help="Draw the graph into this file instead; '-' is standard output.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def get(ctx: click.Context, /, *, run: str, watch: bool, svg: str | None, output: str, tenant: str | None) -> int:
    """Show a run's graph: tasks, loops and steps, where each is, and what came out."""
    client = connect(ctx, tenant=tenant)
    if watch:
        return follow_run(client, run)
    found = client.records(PIPELINE).get(run)
    if svg is not None:
        write_drawing(found, svg)
        return 0
    if output != Output.TABLE:
        print_documents(found, output)
        return 0
    for line in (*tree_lines(found), *_waiting(client, found)):
        click.echo(line)
    return 0


def _waiting(client: Client, run: PipelineRun) -> Iterator[str]:
    """Say why steps wait for machines, of the first few that do."""
    for step in [each for each in run.status.steps if each.state == State.RUNNING][:_MOST_EXPLAINED]:
        job = str(run.job_id(step.number))
        with suppress(ConflictError, NotFoundError):  # it begins at this moment, or is deleted
            if client.get(job).placeable and (said := client.explain(job).sentences):
                yield f"{step.path} waits: {said[0]}"


@command.command("logs")
@_run
@click.argument("step", metavar="STEP")
@tenant_option
@click.pass_context
def logs(ctx: click.Context, /, *, run: str, step: str, tenant: str | None) -> None:
    """Show the output of a step. STEP is as 'get' shows it; its last part is enough if only one step has it."""
    client = connect(ctx, tenant=tenant)
    found = client.records(PIPELINE).get(run)
    for line in client.logs(found.job_id(_number(found, step))):
        click.echo(line.text)


def _number(run: PipelineRun, step: str) -> int:
    paths = {each.path: each.number for each in run.status.steps}
    found = [path for path in paths if path == step] or [path for path in paths if path.rpartition("/")[2] == step]
    if not found:
        raise NotFoundError("step", step, hint=f"those that were started: {', '.join(paths) or 'none'}")
    if len(found) > 1:
        raise InvalidInputError(
            f"several steps are called '{step}'", field="STEP", expected=f"one of {', '.join(found)}"
        )
    if source := next(each.reused_from for each in run.status.steps if each.path == found[0]):
        raise InvalidInputError(f"'{step}' did not run: its outputs are those of {source}", field="STEP")
    return paths[found[0]]


@command.command("api")
@click.option(
    "--root", metavar="ADDRESS", default="", help="For a cluster: store artefacts here where a run does not say."
)
@output_option(Output.TABLE, Output.JSON)
@click.pass_context
def api(ctx: click.Context, /, *, root: str, output: str) -> None:
    """Print the address for kfp.Client: its host. It holds a secret: whoever has it acts for you.

    For a cluster (--context) the command itself serves that address, until it is interrupted.
    """
    if context := chosen_settings(ctx).context:
        _serve(ctx, context, root, output)
        return
    connect(ctx)
    endpoint = read_endpoint(chosen_settings(ctx).kubernetes_file)
    if output == Output.JSON:
        click.echo(json_text({"host": endpoint["address"], "existing_token": endpoint["token"]}))
    else:
        click.echo(f"{endpoint['address']}/{endpoint['token']}")


def _serve(ctx: click.Context, context: str, root: str, output: str) -> None:
    # What speaks to clusters: heavy, and needed by no other command here.
    from gangline.compose.context import serve_kfp
    from gangline.compose.contexts import namespace_of

    def ready(address: str) -> None:
        host, _, token = address.rpartition("/")
        click.echo(json_text({"host": host, "existing_token": token}) if output == Output.JSON else address)
        terminal.say("serving until you press Ctrl-C")

    namespace = (ctx.find_root().obj or {}).get("tenant") or namespace_of(context)
    serve_kfp(context, namespace=namespace, root=root, code_limits=chosen_settings(ctx).code_limits, ready=ready)


@click.group("schedule")
def schedule() -> None:
    """Run pipelines again and again."""


@schedule.command("create")
@click.argument("name", metavar="[NAME]", required=False)
@_file
@_parameters
@click.option("--cron", metavar="CRON", default="", help="When: minute, hour, day of month, month, day of week.")
@click.option("--every", metavar="DURATION", help="Or how long after each other.")
@click.option("--time-zone", metavar="ZONE", default="UTC", show_default=True, help="Whose clock --cron means.")
@click.option("--start", metavar="TIME", default="", help="Begin nothing before this time.")
@click.option("--end", metavar="TIME", default="", help="Begin nothing after this time.")
@click.option("--catch-up", is_flag=True, help="Make up for every time that was missed, and not only for the latest.")
@click.option("--at-most", metavar="NUMBER", type=int, default=1, show_default=True, help="Unfinished runs at a time.")
@click.option("--queue", metavar="QUEUE", default=str(DEFAULT_QUEUE), show_default=True, help="The queue of all steps.")
@click.option("--experiment", metavar="NAME", default="", help="Group the runs with others of this experiment.")
@tenant_option
@click.pass_context
def create_schedule(
    ctx: click.Context,
    /,
    *,
    name: str | None,
    file: str,
    given: tuple[str, ...],
    queue: str,
    experiment: str,
    every: str | None,
    tenant: str | None,
    **when: Any,
) -> None:
    """Run a pipeline again and again, by the clock. A file of kind Schedule says all of that: give no name then."""
    owner, text = Tenant(_owner(ctx, tenant)), _text(file)
    if _is_schedule(file, text):
        specs = _schedules(ctx, file, text, owner)
    elif name is None:
        raise click.UsageError("a name is needed", ctx)
    else:
        on_cluster = bool(chosen_settings(ctx).context)
        made = _spec(file, text, given, "pipeline", on_cluster=on_cluster)
        pipeline = replace(made, queue=QueueName(queue), experiment=experiment)
        seconds = 0.0 if every is None else formatting.read_duration(every, "--every")
        specs = [ScheduleSpec(name=name, tenant=owner, pipeline=pipeline, every_seconds=seconds, **when)]
    for spec in specs:
        click.echo(connect(ctx, tenant=spec.tenant).records(SCHEDULE).create(spec).name)


def _is_schedule(file: str, text: str) -> bool:
    first = document.parse(text, file=file)[0].data
    return isinstance(first, dict) and first.get("kind") == SCHEDULE.object_kind


def _schedules(ctx: click.Context, file: str, text: str, owner: Tenant) -> list[ScheduleSpec]:
    typed = [each for each in ctx.params if ctx.get_parameter_source(each) is ParameterSource.COMMANDLINE]
    if set(typed) - {"file", "tenant"}:
        raise click.UsageError("the file says everything; leave out the name and the other options", ctx)
    found = parse_records(SCHEDULE, text, file=file, directory=Path(file).parent)
    return [SCHEDULE.owned_by(spec, owner) for spec in found]


_by_file = kind_group(SCHEDULE).commands["edit"]


@schedule.command("edit")
@click.argument("name", metavar="NAME")
@click.option("-f", "--file", metavar="FILE", help="Read it from this file; '-' is standard input.")
@click.option("--cron", metavar="CRON", help="Run it at these times from now on.")
@click.option("--every", metavar="DURATION", help="Or this long after each other.")
@click.option("--time-zone", metavar="ZONE", help="Whose clock --cron means.")
@click.option("--at-most", metavar="NUMBER", type=int, help="Unfinished runs at a time.")
@tenant_option
@click.pass_context
def edit_schedule(
    ctx: click.Context, /, *, name: str, file: str | None, every: str | None, tenant: str | None, **when: Any
) -> None:
    """Change when a schedule runs: by options; or all of it, by a file or in your editor."""
    values = {field: value for field, value in when.items() if value is not None}
    if every is not None:
        values |= {"every_seconds": formatting.read_duration(every, "--every"), "cron": values.get("cron", "")}
    elif "cron" in values:
        values["every_seconds"] = 0.0
    if file is not None or not values:
        ctx.invoke(_by_file, name=name, file=file, tenant=tenant)
        return
    edit_fields(connect(ctx, tenant=tenant).records(SCHEDULE), name, values)
    terminal.say(f"{name} is changed")


add_commands(command, PIPELINE)
add_commands(schedule, SCHEDULE)
command.add_command(schedule)
_experiments = kind_group(RUN_EXPERIMENT)
_experiments.name = "experiment"  # its kind is called otherwise, for Katib's has that name
command.add_command(_experiments)
for _kind in (TEMPLATE, TEMPLATE_VERSION):
    command.add_command(kind_group(_kind))
