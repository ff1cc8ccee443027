"""The second document of a compiled pipeline: settings for Kubernetes as the template of a step's pod."""

import copy
import json
from typing import Any

from gangline.dialects.document import plain
from gangline.dialects.kfp import read_pipeline
from gangline.kinds.kind import Owned
from gangline.kinds.pipeline import PIPELINE, plan_pipeline
from gangline.model import Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineSpec, PipelineStatus
from gangline.model.record import RecordId
from gangline.pipelines import Container

STEP: dict[str, Any] = {
    "pipelineInfo": {"name": "p"},
    "schemaVersion": "2.1.0",
    "components": {"comp-a": {"executorLabel": "exec-a"}},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "i", "command": ["do"]}}}},
    "root": {
        "dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}},
        "inputDefinitions": {"parameters": {"secret": {"parameterType": "STRING", "defaultValue": "keys"}}},
    },
}


def with_settings(**settings: Any) -> list[Any]:
    return [STEP, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-a": settings}}}}}]


def template(**settings: Any) -> dict[str, Any]:
    """Return the template of the pod of the first step of a run with these settings."""
    return json.loads(job(with_settings(**settings)).roles[0].pod_template_json or "{}")  # type: ignore[no-any-return]


def job(documents: list[Any]) -> Any:
    spec = PipelineSpec(name="run", documents_json=json.dumps(documents))
    run = PipelineRun(id=RecordId("r1"), spec=spec, status=PipelineStatus(), created_at=Timestamp(0.0))
    (new,) = plan_pipeline(run, Owned(), Timestamp(1.0)).create
    return new.spec


def test_variables_and_files_come_from_secrets_and_config_maps() -> None:
    found = template(
        secretAsEnv=[{"secretName": "s", "keyToEnv": [{"secretKey": "k", "envVar": "V"}], "optional": True}],
        secretAsVolume=[{"secretNameParameter": {"componentInputParameter": "secret"}, "mountPath": "/s"}],
        configMapAsEnv=[
            {
                "configMapNameParameter": {"runtimeValue": {"constant": "c"}},
                "keyToEnv": [{"configMapKey": "k", "envVar": "W"}],
            }
        ],
        configMapAsVolume=[{"configMapName": "c", "mountPath": "/c", "optional": False}],
        fieldPathAsEnv=[{"name": "NODE", "fieldPath": "spec.nodeName"}],
    )
    (main,) = found["spec"]["containers"]
    assert main["env"] == [
        {"name": "V", "valueFrom": {"secretKeyRef": {"name": "s", "optional": True, "key": "k"}}},
        {"name": "W", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    assert [each["mountPath"] for each in main["volumeMounts"]] == ["/s", "/c"]
    volumes = [{key: each[key] for key in each if key != "name"} for each in found["spec"]["volumes"]]
    assert volumes == [{"secret": {"secretName": "keys"}}, {"configMap": {"name": "c", "optional": False}}]


def test_what_only_the_pod_looks_at_is_not_told_to_the_program() -> None:
    pipeline = copy.deepcopy(STEP)
    pipeline["deploymentSpec"]["executors"]["exec-a"]["container"]["args"] = ["{{$}}"]
    settings = with_settings(
        secretAsVolume=[{"secretNameParameter": {"componentInputParameter": "secret"}, "mountPath": "/s"}]
    )
    command = job([pipeline, settings[1]]).roles[0].command
    assert json.loads(command[-1])["inputs"]["parameterValues"] == {}


def test_volumes_nodes_and_the_rest() -> None:
    spec = job(
        with_settings(
            pvcMount=[{"constant": "claim", "mountPath": "/d", "subPath": "x"}],
            emptyDirMounts=[{"volumeName": "e", "mountPath": "/e", "medium": "Memory", "sizeLimit": "1Gi"}],
            genericEphemeralVolume=[
                {"volumeName": "g", "mountPath": "/g", "size": "1Gi", "accessModes": ["ReadWriteOnce"]}
            ],
            enabledSharedMemory={"volumeName": "shm", "size": "64Mi"},
            nodeSelector={"labels": {"disk": "fast"}},
            tolerations=[
                {"key": "k", "operator": "Exists"},
                {"tolerationJson": {"runtimeValue": {"constant": {"key": "j"}}}},
            ],
            nodeAffinity=[{"matchExpressions": [{"key": "z", "operator": "Exists"}]}],
            podAffinity=[{"matchPodLabels": {"a": "b"}, "topologyKey": "zone", "anti": True, "weight": 5}],
            podMetadata={"labels": {"l": "1"}, "annotations": {"n": "2"}},
            imagePullPolicy="Always",
            imagePullSecret=[{"secretName": "pull"}],
            activeDeadlineSeconds="90",
            securityContext={"runAsUser": 7},
        )
    )
    found = json.loads(spec.roles[0].pod_template_json)
    pod, (main,) = found["spec"], found["spec"]["containers"]
    assert [each["name"] for each in pod["volumes"]] == ["settings-0", "e", "g", "shm"]
    assert main["volumeMounts"][0] == {"name": "settings-0", "mountPath": "/d", "subPath": "x"}
    assert (pod["nodeSelector"], pod["tolerations"]) == (
        {"disk": "fast"},
        [{"key": "k", "operator": "Exists"}, {"key": "j"}],
    )
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]
    (preferred,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["weight"] == 5
    assert found["metadata"] == {"labels": {"l": "1"}, "annotations": {"n": "2"}}
    assert (main["imagePullPolicy"], main["securityContext"]) == ("Always", {"runAsUser": 7})
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert spec.policy.deadline_seconds == 90


def test_a_component_may_say_that_several_replicas_train_it() -> None:
    said = {"gangline.dev/replicas": "3", "gangline.dev/framework": "pytorch"}
    spec = job(with_settings(podMetadata={"annotations": said}))
    assert (spec.roles[0].replicas, spec.framework) == (3, "pytorch")


def test_a_workspace_is_a_volume_of_the_run_that_every_step_mounts() -> None:
    config = {"workspace": {"size": "1Gi", "kubernetes": {"pvcSpecPatch": {"storageClassName": "fast"}}}}
    documents = [STEP, {"platforms": {"kubernetes": {"pipelineConfig": config}}}]
    found = json.loads(job(documents).roles[0].pod_template_json)
    assert found["spec"]["volumes"] == [{"name": "workspace", "persistentVolumeClaim": {"claimName": "run-workspace"}}]
    (claim,) = PIPELINE.claims(PipelineSpec(name="run", documents_json=json.dumps(documents)))
    assert claim["metadata"] == {"name": "run-workspace"}
    assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("fast", ["ReadWriteOnce"])


def test_a_volume_that_a_task_creates_is_the_runs_and_mounted_by_its_name() -> None:
    pipeline = copy.deepcopy(STEP)
    named = {"parameters": {"name": {"parameterType": "STRING"}}}
    inputs = {name: {"parameterType": "STRING", "isOptional": True} for name in ("pvc_name", "pvc_name_suffix", "size")}
    pipeline["components"]["comp-make"] = {
        "executorLabel": "exec-make",
        "inputDefinitions": {"parameters": inputs},
        "outputDefinitions": named,
    }
    pipeline["deploymentSpec"]["executors"]["exec-make"] = {"container": {"image": "argostub/createpvc"}}
    given = {"pvc_name_suffix": "-disk", "size": "5Mi"}
    pipeline["root"]["dag"]["tasks"]["make"] = {
        "componentRef": {"name": "comp-make"},
        "inputs": {"parameters": {name: {"runtimeValue": {"constant": value}} for name, value in given.items()}},
    }
    mount = {"mountPath": "/d", "taskOutputParameter": {"producerTask": "make", "outputParameterKey": "name"}}
    documents = [pipeline, with_settings(pvcMount=[mount])[1]]
    found = json.loads(job(documents).roles[0].pod_template_json)
    assert found["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "run-disk"}
    (claim,) = PIPELINE.claims(PipelineSpec(name="run", documents_json=json.dumps(documents)))
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Mi"}}


def test_what_is_not_known_is_passed_over_with_a_note() -> None:
    documents = [plain(each) for each in with_settings(novelty={"x": 1})]
    graph = read_pipeline(documents)
    assert graph.notes == ("platforms.kubernetes.deploymentSpec.executors.exec-a.novelty",)
    assert isinstance(graph.components["comp-a"].body, Container)


def test_whole_numbers_reach_kubernetes_without_the_point_that_the_compiler_gives_them() -> None:
    found = template(
        tolerations=[{"key": "k", "tolerationSeconds": 10.0}],
        nodeAffinity=[{"matchExpressions": [{"key": "z", "operator": "Exists"}], "weight": 5.0}],
        securityContext={"runAsUser": 7.0},
    )
    text = json.dumps(found)
    assert all(part in text for part in ('"tolerationSeconds": 10}', '"weight": 5,', '"runAsUser": 7}'))
