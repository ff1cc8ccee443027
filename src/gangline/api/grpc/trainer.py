"""FfDL's Trainer service: each call is asked of FfDL's REST interface here, as those of our own service are of ours.

So its rights, limits, audit and error codes are those of ``api/ffdl``. Who calls is told by the token in the metadata;
the ``user_id`` of a message is worth nothing. A method whose row is missing keeps the server from starting.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import aiohttp
import grpc
import msgspec
from google.protobuf import json_format

from gangline.api.ffdl.application import PREFIX
from gangline.api.grpc.server import Body, Context, RestLink, write
from gangline.api.operation import Operation
from gangline.dialects.ffdl import FRAMEWORKS
from gangline.wire.rpc import trainer_pb2
from gangline.wire.rpc.methods import RestRequest
from gangline.wire.rpc.refusals import code_of

pb: Any = trainer_pb2  # its classes are made when it is imported
SERVICE = "grpc.trainer.v2.Trainer"
_MODELS, _MODEL = "/models", "/models/{model}"
_USED = (
    ("POST", _MODELS),
    ("GET", _MODELS),
    *((verb, _MODEL) for verb in ("GET", "PATCH", "DELETE")),
    *(("GET", f"{_MODEL}/{part}") for part in ("definition", "trained_model", "logs", "metrics")),
    *(("GET", f"/logs/{{model}}/{part}") for part in ("loglines", "emetrics")),
)
_VERSION = ("version", "2017-02-13")
_CHUNK_BYTES = 64 * 1024
Plain = dict[str, Any]


def trainer_handler(link: RestLink, operations: Sequence[Operation]) -> grpc.GenericRpcHandler:
    """Return what answers the methods; ``operations`` are the rows of FfDL's REST interface."""
    rows = {(operation.method, operation.path) for operation in operations}
    for row in _USED:
        if row not in rows:
            raise RuntimeError(f"{' '.join(row)} has no row in the table of FfDL's operations")
    trainer = Trainer(link)
    methods = pb.DESCRIPTOR.services_by_name["Trainer"].methods
    return grpc.method_handlers_generic_handler(SERVICE, {each.name: _handler(trainer, each) for each in methods})


def _handler(trainer: "Trainer", method: Any) -> Any:
    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    return make(
        getattr(trainer, method.name),
        request_deserializer=getattr(pb, method.input_type.name).FromString,
        response_serializer=getattr(pb, method.output_type.name).SerializeToString,
    )


class Trainer:
    """The methods, by their names."""

    def __init__(self, link: RestLink) -> None:
        self._link = link

    async def CreateTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802  # FfDL's names, all of these
        """Train a model."""
        form = aiohttp.FormData()
        form.add_field("manifest", msgspec.json.encode(manifest_of(message)), filename="manifest.yml")
        if message.model_definition.content:
            form.add_field("model_definition", message.model_definition.content, filename="model.zip")
        found = await self._asked(context, "POST", _MODELS, body=form)
        return pb.CreateResponse(training_id=found["model_id"])

    async def GetTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Show a training."""
        return pb.GetResponse(job=_job(await self._model(message, context), message.user_id))

    async def GetAllTrainingsJobs(self, message: Any, context: Context) -> Any:  # noqa: N802
        """List the trainings."""
        found = await self._asked(context, "GET", _MODELS)
        return pb.GetAllResponse(jobs=[_job(each, message.user_id) for each in found["models"]])

    async def GetTrainingStatusID(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Show how far a training is."""
        return pb.GetStatusIDResponse(status=_status(await self._model(message, context)))

    async def DeleteTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Delete a training."""
        found = await self._asked(context, "DELETE", _path(message))
        return pb.DeleteResponse(training_id=found["model_id"])

    async def HaltTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Halt a training."""
        return await self._changed(pb.HaltResponse, "halt", message, context)

    async def ResumeTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Let a halted training go on, which FfDL itself never did."""
        return await self._changed(pb.ResumeResponse, "resume", message, context)

    async def GetModelDefinition(self, message: Any, context: Context) -> None:  # noqa: N802
        """Send the model definition."""
        await self._sent(context, f"{_path(message)}/definition", pb.ZippedDataChunk)

    async def GetTrainedModel(self, message: Any, context: Context) -> None:  # noqa: N802
        """Send what the training has made."""
        await self._sent(context, f"{_path(message)}/trained_model", pb.ZippedDataChunk)

    async def GetTrainedModelLogs(self, message: Any, context: Context) -> None:  # noqa: N802
        """Send the output, or what was reported, as text."""
        part = "metrics" if message.is_metrics else "logs"
        follow = (("follow", "true"),) if message.follow else ()
        await self._sent(context, f"{_path(message)}/{part}", pb.ByteStreamResponse, follow)

    async def GetTrainingLogs(self, message: Any, context: Context) -> None:  # noqa: N802
        """Send a page of the output."""
        for each in await self._page(message, context, "loglines"):
            await write(context, json_format.ParseDict(each, pb.LogLine()))

    async def GetTrainingEMetrics(self, message: Any, context: Context) -> None:  # noqa: N802
        """Send a page of what was reported."""
        for each in await self._page(message, context, "emetrics"):
            await write(context, json_format.ParseDict(each, pb.EMetrics()))

    async def GetVersions(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Name the frameworks; any version that has an image will do."""
        del message
        await self._asked(context, "GET", _MODELS)  # for who may ask at all
        any_version = pb.FrameworkDetailList(versions=[pb.FrameworkDetails(version="latest", external=True)])
        return pb.Frameworks(frameworks=dict.fromkeys(FRAMEWORKS, any_version))

    async def UpdateTrainingJob(self, message: Any, context: Context) -> Any:  # noqa: N802
        """Refuse: a job says itself how far it is."""
        del message
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the status of a training is the platform's to say")

    async def _changed(self, answer: Callable[..., Any], verb: str, message: Any, context: Context) -> Any:
        await self._asked(context, "PATCH", _path(message), body=msgspec.json.encode({"status": verb}))
        status = _status(await self._model(message, context))
        return answer(training_id=message.training_id, user_id=message.user_id, status=status)

    async def _model(self, message: Any, context: Context) -> Plain:
        return await self._asked(context, "GET", _path(message))

    async def _page(self, message: Any, context: Context, part: str) -> list[Plain]:
        given = {"pagesize": message.pagesize, "pos": message.pos, "since_time": message.since}
        query = tuple((name, str(value)) for name, value in given.items() if value)
        path = f"/logs/{quote(message.meta.training_id, safe='')}/{part}"
        found: list[Plain] = (await self._asked(context, "GET", path, query))["models"]
        return found

    async def _asked(
        self, context: Context, verb: str, path: str, query: tuple[tuple[str, str], ...] = (), body: Body = None
    ) -> Plain:
        request = RestRequest(verb=verb, path=f"{PREFIX}{path}", query=(*query, _VERSION))
        async with self._link.ask(request, context, body, refusal=refuse) as answer:
            found: Plain = msgspec.json.decode(await answer.read())
            return found

    async def _sent(
        self, context: Context, path: str, kind: Callable[..., Any], query: tuple[tuple[str, str], ...] = ()
    ) -> None:
        request = RestRequest(verb="GET", path=f"{PREFIX}{path}", query=(*query, _VERSION))
        async with self._link.ask(request, context, refusal=refuse) as answer:
            await context.send_initial_metadata(())  # at once, however long nothing is said
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                await write(context, kind(data=chunk))


async def refuse(context: Context, status: int, body: bytes) -> None:
    """End a call with the status and the description of a refusal by FfDL's REST interface."""
    try:
        text = str(msgspec.json.decode(body)["description"])
    except (msgspec.DecodeError, KeyError, TypeError):
        text = "refused"
    await context.abort(code_of(status), text)


def _path(message: Any) -> str:
    return f"{_MODELS}/{quote(message.training_id, safe='')}"


def manifest_of(message: Any) -> Plain:
    """Return the manifest that says what a CreateRequest says."""
    definition, training = message.model_definition, message.training
    resources, framework = training.resources, definition.framework
    found: Plain = {
        "name": definition.name,
        "description": definition.description,
        "framework": {
            "name": framework.name,
            "version": framework.version,
            "image_tag": framework.image_tag,
            "command": training.command,
        },
        "cpus": _number(resources.cpus),
        "gpus": _number(resources.gpus),
        "learners": resources.learners,
        "gpu_type": resources.gpu_type,
        "memory": resources.memory and f"{_number(resources.memory)}{pb.SizeUnit.Name(resources.memory_unit)}",
        "storage": resources.storage and f"{_number(resources.storage)}{pb.SizeUnit.Name(resources.storage_unit)}",
        "data_stores": _data_stores(message),
        "evaluation_metrics": json_format.MessageToDict(message.evaluation_metrics, preserving_proto_field_name=True),
    }
    found["framework"] = _said(found["framework"])
    return _said(found)


def _number(value: float) -> float | int:
    """Write a single-precision number as it was meant: 0.1, not 0.10000000149."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def _said(values: Mapping[str, Any]) -> Plain:
    """Leave out what a message cannot tell from something that was not said."""
    return {name: value for name, value in values.items() if value}


def _data_stores(message: Any) -> list[Plain]:
    """Return the stores with what is read from and written to each; messages have one for either direction."""
    uses = {"training_data": message.training.input_data, "training_results": message.training.output_data}
    found: dict[tuple[Any, ...], Plain] = {}
    for store in message.datastores:
        connection = dict(store.connection)
        known = found.setdefault(
            (store.type, *sorted(connection.items())),
            {"id": store.id, "type": store.type, "connection": connection},
        )
        fields = dict(store.fields)
        bucket = {"container": fields.get("bucket") or fields.get("container", "")}
        known |= {use: bucket for use, ids in uses.items() if store.id in ids}
    return [_said(each) for each in found.values()]


def _job(model: Plain, user_id: str) -> Any:
    training, state = model["training"], model["training"]["training_status"]
    times = {
        name: _milliseconds(state[given])
        for name, given in (
            ("submission_timestamp", "submitted"),
            ("completion_timestamp", "completed"),
            ("download_start_timestamp", "download_started"),
            ("process_start_timestamp", "process_started"),
            ("store_start_timestamp", "store_started"),
        )
        if given in state
    }
    return pb.Job(
        training_id=model["model_id"],
        user_id=user_id,
        job_id=model["model_id"],
        model_definition=pb.ModelDefinition(name=model["name"], framework=pb.Framework(**model["framework"])),
        training=pb.Training(
            command=training["command"],
            input_data=training["input_data"],
            output_data=training["output_data"],
            resources=pb.ResourceRequirements(
                cpus=training["cpus"],
                gpus=training["gpus"],
                memory=training["memory"],
                memory_unit=training["memory_unit"],
                learners=training["learners"],
            ),
        ),
        status=pb.TrainingStatus(
            status=_status(model),
            status_message=state.get("status_message", ""),
            error_code=state.get("error_code", ""),
            **times,
        ),
    )


def _status(model: Plain) -> int:
    return int(pb.Status.Value(model["training"]["training_status"]["status"]))


def _milliseconds(text: str) -> str:
    return str(int(datetime.fromisoformat(text).timestamp() * 1000))
