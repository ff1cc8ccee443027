"""FfDL's Trainer service, as a client with FfDL's own description calls it."""

import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gangline import operations
from gangline.api.ffdl.application import operations_here
from gangline.api.grpc.server import RestLink
from gangline.api.grpc.trainer import SERVICE, manifest_of, trainer_handler
from gangline.model import Phase
from gangline.model.team.access import Role
from gangline.wire.rpc import trainer_pb2
from tests.api.ffdl.test_models import zipped
from tests.api.grpc.test_server import serving
from tests.api.team import OTHER, OWN, TeamOffice

pb: Any = trainer_pb2


class Trainer:
    """Somebody with a token."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None) -> None:
        self._channel, self._metadata = channel, () if token is None else (("authorization", f"Bearer {token}"),)

    async def __call__(self, name: str, message: Any) -> Any:
        method = pb.DESCRIPTOR.services_by_name["Trainer"].methods_by_name[name]
        answer = getattr(pb, method.output_type.name)
        path = f"/{SERVICE}/{name}"
        codec = (type(message).SerializeToString, answer.FromString)
        if method.server_streaming:
            stream = self._channel.unary_stream(path, *codec)(message, metadata=self._metadata)
            return [each async for each in stream]
        return await self._channel.unary_unary(path, *codec)(message, metadata=self._metadata)


@pytest.fixture
async def office(tmp_path: Path) -> TeamOffice:
    return TeamOffice(tmp_path)


@pytest.fixture
async def channel(office: TeamOffice, tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with serving(office, tmp_path) as channel:
        yield channel


@pytest.fixture
async def trainer(office: TeamOffice, channel: grpc.aio.Channel) -> Trainer:
    return Trainer(channel, await office.token("m", Role.MEMBER, OWN))


def request(**more: Any) -> Any:
    framework = pb.Framework(name="tensorflow", version="1.5.0-py3")
    content = zipped(("train.py", b"print(1)"))
    resources = pb.ResourceRequirements(cpus=0.1, gpus=0, memory=512, memory_unit=pb.MiB, learners=2)
    return pb.CreateRequest(
        user_id="somebody",
        model_definition=pb.ModelDefinition(name="My Model", content=content, framework=framework),
        training=pb.Training(command="python3 train.py", resources=resources, **more),
    )


async def test_a_model_is_trained_shown_halted_resumed_and_deleted(trainer: Trainer, office: TeamOffice) -> None:
    made = (await trainer("CreateTrainingJob", request())).training_id
    [shown] = (await trainer("GetAllTrainingsJobs", pb.GetAllRequest(user_id="ada"))).jobs
    assert (shown.training_id, shown.model_definition.name, shown.status.status) == (made, "my-model", pb.QUEUED)
    resources = shown.training.resources
    assert (round(resources.cpus, 3), resources.memory, resources.memory_unit, resources.learners) == (0.1, 512, 1, 2)
    assert shown.training.command == "python3 train.py"
    assert abs(int(shown.status.submission_timestamp) - office.clock.now() * 1000) < 1000

    one = {"training_id": made, "user_id": "ada"}
    halted = await trainer("HaltTrainingJob", pb.HaltRequest(**one))
    assert (halted.training_id, halted.user_id, halted.status) == (made, "ada", pb.HALTED)
    resumed = await trainer("ResumeTrainingJob", pb.ResumeRequest(**one))
    assert (resumed.training_id, resumed.status) == (made, pb.QUEUED)
    assert (await trainer("GetTrainingStatusID", pb.GetRequest(**one))).status == pb.QUEUED
    assert (await operations.get_job(office.context("root"), OWN, made)).phase is Phase.RESUMED
    assert (await trainer("DeleteTrainingJob", pb.DeleteRequest(**one))).training_id == made
    assert (await operations.get_job(office.context("root"), OWN, made)).deleting


async def test_the_definition_comes_back_as_it_was_sent(trainer: Trainer) -> None:
    made = (await trainer("CreateTrainingJob", request())).training_id
    chunks = await trainer("GetModelDefinition", pb.ModelDefinitionRequest(training_id=made))
    with zipfile.ZipFile(io.BytesIO(b"".join(each.data for each in chunks))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"train.py": b"print(1)"}


async def test_output_comes_in_pages_and_as_text(trainer: Trainer, office: TeamOffice) -> None:
    made = (await trainer("CreateTrainingJob", request())).training_id
    job = await operations.get_job(office.context("root"), OWN, made)
    for number in range(3):
        office.engine.write(job, f"line {number}")
    meta = pb.MetaInfo(training_id=made)
    page = await trainer("GetTrainingLogs", pb.Query(meta=meta, pos=1, pagesize=1))
    assert [(each.line, each.meta.training_id, each.meta.rindex) for each in page] == [("line 1", made, 2)]
    last = await trainer("GetTrainingLogs", pb.Query(meta=meta, pos=-1))
    assert [each.line for each in last] == ["line 2"]
    assert await trainer("GetTrainingEMetrics", pb.Query(meta=meta)) == []
    text = await trainer("GetTrainedModelLogs", pb.TrainedModelLogRequest(training_id=made))
    assert b"".join(each.data for each in text) == b"line 0\nline 1\nline 2\n"


async def test_others_see_nothing_of_it(trainer: Trainer, office: TeamOffice, channel: grpc.aio.Channel) -> None:
    made = (await trainer("CreateTrainingJob", request())).training_id
    other = Trainer(channel, await office.token("m", Role.ADMIN, OTHER))
    viewer = Trainer(channel, await office.token("v", Role.VIEWER, OWN))
    nobody, message = Trainer(channel, None), pb.GetRequest(training_id=made, user_id="somebody")
    assert not (await other("GetAllTrainingsJobs", pb.GetAllRequest(user_id="somebody"))).jobs
    for who, name, asked, want in (
        (other, "GetTrainingJob", message, grpc.StatusCode.NOT_FOUND),
        (other, "GetTrainingLogs", pb.Query(meta=pb.MetaInfo(training_id=made)), grpc.StatusCode.NOT_FOUND),
        (viewer, "HaltTrainingJob", pb.HaltRequest(training_id=made), grpc.StatusCode.PERMISSION_DENIED),
        (nobody, "GetTrainingJob", message, grpc.StatusCode.UNAUTHENTICATED),
        (nobody, "GetVersions", pb.GetVersionsRequest(), grpc.StatusCode.UNAUTHENTICATED),
        (trainer, "UpdateTrainingJob", pb.UpdateRequest(training_id=made), grpc.StatusCode.UNIMPLEMENTED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await who(name, asked)
        assert refused.value.code() is want, name
    assert "tensorflow" in (await viewer("GetVersions", pb.GetVersionsRequest())).frameworks


async def test_what_is_wrong_has_ffdls_code(trainer: Trainer) -> None:
    broken = request()
    broken.model_definition.content = b"no zip"
    nameless = request()
    nameless.model_definition.name = ""
    for message, want in ((broken, "C102"), (nameless, "C101")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await trainer("CreateTrainingJob", message)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert want in (refused.value.details() or "")


def test_data_stores_of_both_directions_are_one_of_the_manifest() -> None:
    message = request(input_data=["in"], output_data=["out"])
    for name, bucket in (("in", "mnist"), ("out", "results")):
        store = message.datastores.add(id=name, type="s3_datastore")
        store.fields["bucket"] = bucket
        store.connection["auth_url"] = "http://store"
    [store] = manifest_of(message)["data_stores"]
    assert store == {
        "id": "in",
        "type": "s3_datastore",
        "connection": {"auth_url": "http://store"},
        "training_data": {"container": "mnist"},
        "training_results": {"container": "results"},
    }


def test_a_method_without_a_row_does_not_start() -> None:
    rows = [row for row in operations_here() if row.method != "PATCH"]
    with pytest.raises(RuntimeError, match=r"PATCH /models/\{model\} has no row"):
        trainer_handler(RestLink.__new__(RestLink), rows)
