"""The gRPC interface of the Open Inference Protocol."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
import numpy as np

from gangline.serve import tensors
from gangline.serve.agreement import Agreement
from gangline.serve.errors import BadRequestError, ServeError
from gangline.serve.repository import Repository, State
from gangline.serve.rest import EXTENSIONS, SERVER_NAME
from gangline.serve.rpc import open_inference_pb2
from gangline.serve.tensors import Array

pb: Any = open_inference_pb2  # its classes are made when it is imported
SERVICE = "inference.GRPCInferenceService"
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
Message = Any
Call = Callable[[Message], Awaitable[Message]]


def _to_bytes(message: Message) -> bytes:
    found: bytes = message.SerializeToString()
    return found


class InferenceService:
    """One method for each call."""

    def __init__(self, repository: Repository, agreement: Agreement, version: str) -> None:
        self._repository = repository
        self._agreement = agreement
        self._version = version

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return what a server of grpcio is given."""
        calls: Mapping[str, tuple[Call, Message]] = {
            "ServerLive": (self._live, pb.ServerLiveRequest),
            "ServerReady": (self._ready, pb.ServerReadyRequest),
            "ModelReady": (self._model_ready, pb.ModelReadyRequest),
            "ServerMetadata": (self._server, pb.ServerMetadataRequest),
            "ModelMetadata": (self._metadata, pb.ModelMetadataRequest),
            "ModelInfer": (self._infer, pb.ModelInferRequest),
            "RepositoryIndex": (self._index, pb.RepositoryIndexRequest),
            "RepositoryModelLoad": (self._load, pb.RepositoryModelLoadRequest),
            "RepositoryModelUnload": (self._unload, pb.RepositoryModelUnloadRequest),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(_answering(call), request.FromString, _to_bytes)
            for name, (call, request) in calls.items()
        }
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream, pb.ModelInferRequest.FromString, _to_bytes
        )
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def _live(self, _: Message) -> Message:
        return pb.ServerLiveResponse(live=True)

    async def _ready(self, _: Message) -> Message:
        return pb.ServerReadyResponse(ready=self._repository.ready and not self._repository.stuck)

    async def _model_ready(self, request: Message) -> Message:
        found = self._repository.find(request.name, request.version)
        return pb.ModelReadyResponse(ready=found.state is State.READY)

    async def _server(self, _: Message) -> Message:
        return pb.ServerMetadataResponse(name=SERVER_NAME, version=self._version, extensions=EXTENSIONS)

    async def _metadata(self, request: Message) -> Message:
        found = self._repository.find(request.name, request.version)
        model = found.loaded()
        describe = pb.ModelMetadataResponse.TensorMetadata
        return pb.ModelMetadataResponse(
            name=found.name,
            versions=self._repository.versions(found.name),
            platform=model.platform,
            inputs=[describe(name=one.name, datatype=one.datatype, shape=one.shape) for one in model.inputs],
            outputs=[describe(name=one.name, datatype=one.datatype, shape=one.shape) for one in model.outputs],
        )

    async def _infer(self, request: Message) -> Message:
        version, began, status = (
            self._repository.find(request.model_name, request.model_version),
            time.perf_counter(),
            500,
        )
        try:
            outputs = await version.ask(read_inputs(request), request.id)
            answer = write_answer(request, version.name, version.version, outputs)
            status = 200
            return answer
        except ServeError as error:
            status = error.status
            raise
        finally:
            version.counters.answered(status, began)

    async def _stream(self, requests: AsyncIterator[Message], _: grpc.aio.ServicerContext) -> AsyncIterator[Message]:
        """Answer one request after the other; one that is refused does not end the stream."""
        async for request in requests:
            try:
                yield pb.ModelStreamInferResponse(infer_response=await self._infer(request))
            except ServeError as error:
                yield pb.ModelStreamInferResponse(error_message=str(error))

    async def _index(self, request: Message) -> Message:
        return pb.RepositoryIndexResponse(
            models=[
                pb.RepositoryIndexResponse.ModelIndex(
                    name=one.name, version=one.version, state=one.state.value, reason=one.reason
                )
                for one in self._repository
                if one.state is State.READY or not request.ready
            ]
        )

    async def _load(self, request: Message) -> Message:
        await self._agreement.ask(request.model_name, loaded=True)
        return pb.RepositoryModelLoadResponse()

    async def _unload(self, request: Message) -> Message:
        await self._agreement.ask(request.model_name, loaded=False)
        return pb.RepositoryModelUnloadResponse()


def _answering(call: Call) -> Callable[[Message, Any], Awaitable[Message]]:
    async def answer(request: Message, context: Any) -> Message:
        try:
            return await call(request)
        except ServeError as error:
            await context.abort(getattr(grpc.StatusCode, error.code), str(error))

    return answer


def read_inputs(request: Message) -> dict[str, Array]:
    """Read the tensors of a request, all as bytes or all as typed lists."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadRequestError(f"{len(request.inputs)} inputs, but raw_input_contents has {len(raw)}")
    inputs: dict[str, Array] = {}
    for index, tensor in enumerate(request.inputs):
        where = f"input {tensor.name!r}"
        if tensor.name in inputs:
            raise BadRequestError(f"{where} is sent twice")
        if raw:
            inputs[tensor.name] = tensors.from_binary(raw[index], tensor.datatype, tensor.shape, where)
        else:
            inputs[tensor.name] = _read_contents(tensor, where)
    return inputs


def _read_contents(tensor: Message, where: str) -> Array:
    dtype = tensors.dtype_of(tensor.datatype, where)
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        raise BadRequestError(f"{where}: {tensor.datatype} can only be sent as raw_input_contents")
    values = getattr(tensor.contents, field)
    if tensor.datatype == "BYTES":
        array = np.empty(len(values), dtype=np.object_)
        array[:] = list(values)
    else:
        try:
            array = np.asarray(values).astype(dtype, casting="unsafe") if not len(values) else _exact(values, dtype)
        except (ValueError, OverflowError) as error:
            raise BadRequestError(f"{where}: {error}") from error
    return tensors.shaped(array, tensors.checked_shape(tensor.shape, where), where)


def _exact(values: Message, dtype: Any) -> Array:
    found = np.asarray(values)
    narrow = found.astype(dtype)
    if found.dtype.kind in "iu" and not np.array_equal(found, narrow):
        raise ValueError("a number is out of range")
    return narrow


def write_answer(request: Message, name: str, version: str, outputs: Mapping[str, Array]) -> Message:
    """Write an answer; the tensors follow it as bytes, as Triton's client and KServe's expect."""
    wanted = [output.name for output in request.outputs] or list(outputs)
    answer = pb.ModelInferResponse(model_name=name, model_version=version, id=request.id)
    for output in wanted:
        if output not in outputs:
            raise BadRequestError(f"there is no output {output!r}; the model answers {', '.join(outputs)}")
        array = outputs[output]
        answer.outputs.add(name=output, datatype=tensors.datatype_of(array), shape=array.shape)
        answer.raw_output_contents.append(tensors.to_binary(array))
    return answer
