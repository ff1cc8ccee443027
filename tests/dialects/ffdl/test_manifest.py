"""FfDL manifests as jobs."""

import json
import re

import pytest

from gangline.dialects import Translation, read
from gangline.errors import InvalidInputError
from gangline.model import DataMove, Framework, Resources, RoleName, Success
from gangline.model.jobs.metric_source import MetricFormat, MetricSource

MANIFEST = """
name: tf_convolutional_network
description: a network
version: "1.0"
gpus: 1
cpus: 0.5
memory: 2Gb
learners: 2
gpu_type: v100
data_stores:
  - id: store
    type: mount_cos
    training_data: {container: tf_training_data}
    training_results: {container: tf_trained_model}
    connection: {auth_url: "http://s3.example", user_name: test, password: hush-hush, region: eu}
framework:
  name: tensorflow
  version: "1.5.0-gpu-py3"
  command: >
    python3 train.py --images ${DATA_DIR}/train.gz
      --iterations 2000
evaluation_metrics: {type: tensorboard, in: "$JOB_STATE_DIR/logs/tb"}
"""


def translate(text: str) -> Translation:
    (translation,) = read(text, file="manifest.yml")
    return translation


class TestManifest:
    translation = translate(MANIFEST)
    spec = translation.spec

    def test_the_name_is_made_fit_for_hosts_and_says_so(self) -> None:
        assert self.spec.name == "tf-convolutional-network"
        assert "became 'tf-convolutional-network'" in self.translation.notes[0]

    def test_learners_are_workers_that_all_must_succeed(self) -> None:
        (worker,) = self.spec.roles
        assert (worker.name, worker.replicas) == ("worker", 2)
        assert worker.resources == Resources(cpu_millis=500, memory_mib=1908, gpu_millis=1000)
        assert (self.spec.policy.success, self.spec.placement.gpu_types) == (Success.ALL, ("v100",))

    def test_the_command_runs_in_a_shell_on_one_line_and_learners_count_from_one(self) -> None:
        train = "python3 train.py --images ${DATA_DIR}/train.gz --iterations 2000"
        shell, flag, script = self.spec.roles[0].command
        assert (shell, flag) == ("bash", "-c")
        assert script.startswith("export LEARNER_ID=$((GANGLINE_INDEX + 1)); export TRAINING_ID=")
        assert script.endswith(f"; {train}")
        assert self.spec.env["NUM_LEARNERS"] == "2"

    def test_data_stores_are_moves_whose_keys_are_kept_elsewhere(self) -> None:
        (store,) = self.translation.stores
        assert (store.address, store.endpoint, store.region) == ("s3://", "http://s3.example", "eu")
        assert self.spec.inputs == (DataMove("s3://tf_training_data", "$DATA_DIR", store=store.name),)
        assert self.spec.outputs == (DataMove("$RESULT_DIR", "s3://tf_trained_model/$JOB_NAME", store=store.name),)
        (secret,) = map(json.loads, self.translation.objects_json)
        assert secret["metadata"]["name"] == store.keys
        assert secret["stringData"] == {"key": "test", "secret": "hush-hush"}
        assert "hush-hush" not in repr(self.spec) + repr(self.translation.notes)
        assert f"kept in store '{store.name}'" in self.translation.notes[-1]

    def test_numbers_are_found_where_tensorboard_has_them(self) -> None:
        assert self.spec.metrics == (MetricSource(path="$RESULT_DIR/logs/tb", format=MetricFormat.TENSORBOARD),)

    def test_framework_and_image(self) -> None:
        assert (self.spec.framework, self.spec.image) == (
            Framework.TENSORFLOW,
            "tensorflow/tensorflow:1.5.0-gpu-py3",
        )
        assert self.spec.origin == "ffdl manifest"


def test_what_a_manifest_leaves_out_is_as_ffdl_had_it() -> None:
    spec = translate("name: a\nframework: {name: acme/own, command: ./run}\n").spec
    assert spec.roles[0].resources == Resources(cpu_millis=5000, memory_mib=7630)
    assert (spec.framework, spec.image, spec.inputs) == (Framework.NONE, "acme/own", ())


def test_a_mounted_volume_is_a_path() -> None:
    spec = translate("""
name: a
storage: 1Gb
data_stores:
  - {type: mount_volume, training_data: {container: digits}, connection: {type: host_mount, name: m, path: /cosdata/}}
framework: {name: pytorch, image_tag: own, version: "1", command: ./run}
""").spec
    assert spec.inputs == (DataMove("/cosdata/digits", "$DATA_DIR"),)
    assert spec.image == "pytorch/pytorch:own"


def test_horovod_learners_are_started_by_a_launcher() -> None:
    spec = translate("name: a\nlearners: 3\ngpus: 1\nframework: {name: horovod, command: python train.py}\n").spec
    launcher, worker = spec.roles
    assert launcher.command[-1].endswith("mpirun --allow-run-as-root -np 3 python train.py")
    assert (worker.replicas, worker.command, worker.resources.gpu_millis) == (3, ("sleep", "infinity"), 1000)
    assert (spec.framework, spec.lead_role, spec.policy.success) == (
        Framework.MPI,
        RoleName("launcher"),
        Success.LEAD,
    )


@pytest.mark.parametrize(
    ("text", "line", "field", "suggestion"),
    [
        ("framework: {name: a, command: b}", 1, "name", None),
        ("name: a\nframework: {name: a}", 2, "framework.command", None),
        ("name: a\nframework: {name: a, command: ' '}", 2, "framework.command", None),
        ("name: a\nlearner: 2\nframework: {name: a, command: b}", 2, "learner", "learners"),
        ("name: a\nlearners: 0\nframework: {name: a, command: b}", 2, "learners", None),
        ("name: '***'\nframework: {name: a, command: b}", 1, "name", None),
        ("name: a\nmemory: much\nframework: {name: a, command: b}", 2, "memory", None),
        (
            "name: a\ndata_stores:\n- type: mount_co\nframework: {name: a, command: b}",
            3,
            "data_stores[0].type",
            "mount_cos",
        ),
        (
            "name: a\ndata_stores:\n- training_data: {}\nframework: {name: a, command: b}",
            3,
            "data_stores[0].training_data.container",
            None,
        ),
    ],
)
def test_wrong_manifests_are_refused_with_their_place(text: str, line: int, field: str, suggestion: str | None) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        translate(text)
    error = refusal.value
    assert (error.file, error.line, error.field, error.suggestion) == ("manifest.yml", line, field, suggestion)


def with_stores(stores: str) -> Translation:
    return translate(f"name: a\ndata_stores: [{stores}]\nframework: {{name: acme/own, command: ./run}}\n")


@pytest.mark.parametrize(
    ("store", "want_source"),
    [
        ("{type: mount_volume, connection: {type: host_mount, path: /data}, training_data: {container: x}}", "/data/x"),
        ("{type: mount_volume, connection: {name: claim}, training_data: {container: x}}", "pvc://claim/x"),
        ("{type: s3_datastore, training_data: {container: x}}", "s3://x"),
    ],
)
def test_every_kind_of_store_is_an_address(store: str, want_source: str) -> None:
    translation = with_stores(store)
    assert translation.spec.inputs == (DataMove(want_source, "$DATA_DIR"),)
    assert translation.stores == ()


def test_a_store_in_memory_holds_nothing_and_swift_is_refused() -> None:
    assert with_stores("{type: inmem_datastore, training_data: {container: x}}").spec.inputs == ()
    with pytest.raises(InvalidInputError, match="does not speak Swift"):
        with_stores("{type: swift_datastore, training_data: {container: x}}")
    with pytest.raises(InvalidInputError, match=r"connection.path"):
        with_stores("{type: mount_volume, training_data: {container: x}}")


PATTERNS = r"""
name: a
framework: {name: custom, version: "acme/own:1", command: ./run}
evaluation_metrics:
  type: regex_extractor
  line_lookahead: 2
  groups:
    test:
      regex: 'step %{INT:step}, loss %{FLOAT:loss}'
      scalars: {loss: {type: FLOAT, value: $loss}, one: {type: INT, value: 1}}
      etimes: {iteration: {type: INT, value: $step}}
"""


def test_patterns_are_read_with_their_macros_from_what_a_learner_prints() -> None:
    spec = translate(PATTERNS).spec
    (source,) = spec.metrics
    assert spec.image == "acme/own:1"
    assert (source.path, source.lines, source.step) == ("$RESULT_DIR/logs/training-log.txt", 2, "step")
    assert source.values == {"test/loss": "loss", "test/one": "1"}
    found = re.search(source.pattern, "at step 12, loss -1.5e-3 now")
    assert found is not None
    assert found.groupdict() == {"step": "12", "loss": "-1.5e-3"}
    assert "tee -a" in spec.roles[0].command[2]
    with pytest.raises(InvalidInputError, match="GLOG} is not known"):
        translate(PATTERNS.replace("%{INT:step}", "%{GLOG}"))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("{type: logger}", ()),
        ("{type: none}", ()),
        ("{type: optivist}", ("$RESULT_DIR/logs/evaluation-metrics.txt",)),
        ('{type: emetrics_file, in: "${JOB_STATE_DIR}/em.txt"}', ("$RESULT_DIR/em.txt",)),
    ],
)
def test_where_records_are_looked_for(given: str, want: tuple[str, ...]) -> None:
    text = f"name: a\nframework: {{name: x, command: ./run}}\nevaluation_metrics: {given}\n"
    assert tuple(source.path for source in translate(text).spec.metrics) == want
