"""What users of the Kubeflow Training SDK do. Runs in the SDK's own environment, and knows nothing of Gangline.

Usage: sdk_scenarios.py KUBECONFIG WHEEL DIRECTORY [IMAGE NAMESPACE]. Every scenario runs in a thread of its own; what
each saw, or why it failed, is printed as one JSON document. With an image it is a cluster that is spoken to: replicas
share no directory with us, and the image is run.
"""

import json
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kubeflow.training import TrainingClient, models
from kubernetes import client as kubernetes
from kubernetes.config import new_client_from_config
from kubernetes.stream import stream

FIELDS = {"TFJob": "tf", "PyTorchJob": "pytorch", "MPIJob": "mpi", "JAXJob": "jax"}
TYPES = {
    "TFJob": ("Chief", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "MPIJob": ("Launcher", "Worker"),
    "JAXJob": ("Worker",),
}
WAIT = {"polling_interval": 0.1, "wait_timeout": 180}
CLUSTER = len(sys.argv) > 4
IMAGE = sys.argv[4] if CLUSTER else "any"
NAMESPACE = sys.argv[5] if CLUSTER else "default"


def job_of(kind, name, script, *, suspend=None):
    def replica(role):
        words = ["sleep", "600"] if (kind, role) == ("MPIJob", "Worker") else ["sh", "-c", script]
        container = models.V1Container(name=kind[:-3].lower().replace("tf", "tensorflow"), image=IMAGE, command=words)
        pod = models.V1PodSpec(containers=[container], termination_grace_period_seconds=1)
        template = models.V1PodTemplateSpec(spec=pod)
        count = 2 if kind == "JAXJob" else 1
        return models.KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy="Never", template=template)

    field = f"{FIELDS[kind]}_replica_specs"
    spec = getattr(models, f"KubeflowOrgV1{kind}Spec")(
        run_policy=models.KubeflowOrgV1RunPolicy(suspend=suspend),
        **{field: {role: replica(role) for role in TYPES[kind]}},
    )
    metadata = models.V1ObjectMeta(name=name, namespace=NAMESPACE, labels={"team": "sdk"}, annotations={"note": "mine"})
    return getattr(models, f"KubeflowOrgV1{kind}")(
        api_version="kubeflow.org/v1", kind=kind, metadata=metadata, spec=spec
    )


def conditions(client, name):
    return {condition.type: condition.status for condition in client.get_job_conditions(name)}


def life(client, kind):
    """From an object to its deletion, with everything one looks at on the way."""
    name = f"life-{kind.lower()}"
    gate = Path("/dev/shm" if CLUSTER else sys.argv[3]) / name
    client.create_job(job_of(kind, name, f"echo begin; until [ -e {gate} ]; do sleep 0.05; done; echo end"))
    client.wait_for_job_conditions(name, expected_conditions={"Running"}, **WAIT)
    pods = {pod.metadata.name: (pod.status.phase, pod.metadata.labels) for pod in client.get_job_pods(name)}
    with ThreadPoolExecutor(max_workers=1) as follower:
        following = follower.submit(client.get_job_logs, name, follow=True)
        open_gate(gate, pods)
        followed, _ = following.result()
    done = client.wait_for_job_conditions(name, **WAIT)
    logs, events = client.get_job_logs(name, verbose=True)
    seen = {
        "pods": pods,
        "master": client.get_job_pod_names(name, is_master=True),
        "worker": client.get_job_pod_names(name, replica_type="worker", replica_index=0),
        "followed": followed,
        "logs": logs,
        "events": sorted(events),
        "listed": name in [job.metadata.name for job in client.list_jobs()],
        "conditions": conditions(client, name),
        "succeeded": client.is_job_succeeded(name),
        "annotations": done.metadata.annotations,
        "uid_is_stable": done.metadata.uid == client.get_job(name).metadata.uid,
        "container": [pod.spec.containers[0].image for pod in client.get_job_pods(name, is_master=True)],
        "completed": done.status.completion_time is not None and done.status.start_time is not None,
    }
    client.delete_job(name)
    until(lambda: error_of(lambda: client.get_job(name)))
    return {**seen, "after_deletion": error_of(lambda: client.get_job(name))}


def open_gate(gate, pods):
    """Let the programs go on that wait for a file."""
    if not CLUSTER:
        gate.touch()
        return
    with new_client_from_config(sys.argv[1]) as own:  # stream changes the client that it is given
        for pod in pods:
            run = kubernetes.CoreV1Api(own).connect_get_namespaced_pod_exec
            stream(run, pod, NAMESPACE, command=["sh", "-c", f": > {gate}"], stdout=True, stderr=True)


def suspension(client, kind):
    """Created suspended, changed while it rests, woken, suspended again, woken again."""
    name = f"rest-{kind.lower()}"
    client.create_job(job_of(kind, name, "echo before", suspend=True))
    until(lambda: conditions(client, name).get("Suspended"))
    seen = {"created": conditions(client, name), "pods_created": client.get_job_pod_names(name)}
    update(client, name, lambda job: set_script(job, kind, "echo after; sleep 600"))
    update(client, name, wake)
    client.wait_for_job_conditions(name, expected_conditions={"Running"}, **WAIT)
    if not CLUSTER:
        seen["refused"] = error_of(lambda: update(client, name, lambda job: set_script(job, kind, "echo too late")))
    update(client, name, lambda job: job.metadata.labels.update({"team": "other"}))
    update(client, name, lambda job: setattr(job.spec.run_policy, "suspend", True))
    until(lambda: conditions(client, name).get("Suspended") == "True" and not client.get_job_pod_names(name))
    seen["suspended"] = conditions(client, name)
    update(client, name, wake)
    client.wait_for_job_conditions(name, expected_conditions={"Running"}, **WAIT)
    seen["resumed"] = conditions(client, name)
    seen["labels"] = client.get_job(name).metadata.labels
    until(lambda: "after" in str(client.get_job_logs(name)[0]))
    client.delete_job(name)
    return seen


def set_script(job, kind, script):
    for role in getattr(job.spec, f"{FIELDS[kind]}_replica_specs").values():
        role.template.spec.containers[0].command = ["sh", "-c", script]


def wake(job):
    job.spec.run_policy.suspend = False


def update(client, name, change):
    """Change the newest version; another is made meanwhile whenever the job's state changes."""
    for _ in range(20):
        job = client.get_job(name)
        change(job)
        try:
            return client.update_job(job, name)
        except RuntimeError as error:
            if "(409)" not in str(error) or "started" in str(error):
                raise
    raise AssertionError("the job never stood still")


def function(client, kind):
    """A function of the user's, packed by the SDK, with a package installed first."""

    def train(parameters):
        import os

        import gangline_test_package

        print(f"rate {parameters['rate']} word {gangline_test_package.WORD} role {os.environ['ROLE']}")

    def train_there(parameters):
        import os

        print(f"rate {parameters['rate']} word installed role {os.environ['ROLE']}")

    name = f"function-{kind.lower()}"
    client.create_job(
        name=name,
        train_func=train_there if CLUSTER else train,
        parameters={"rate": 0.5},
        num_workers=1 if kind == "PyTorchJob" else 2,
        packages_to_install=None if CLUSTER else [sys.argv[2]],
        base_image=IMAGE,
        env_vars={"ROLE": "trainer"},
        resources_per_worker={"cpu": "0.1", "memory": "256Mi"},
    )
    client.wait_for_job_conditions(name, **WAIT)
    # A TFJob is over with its first worker: the second may have ended, or not have begun and be removed just now.
    until(lambda: all(pod.status.phase in ("Succeeded", "Failed") for pod in client.get_job_pods(name)))
    return client.get_job_logs(name, is_master=False)[0]


def image(client, kind):
    """An image alone: a cluster runs what is in it, a laptop does not know what that would be."""
    if CLUSTER:
        client.create_job(name=f"image-{kind.lower()}", base_image=IMAGE, num_workers=1)
        client.wait_for_job_conditions(f"image-{kind.lower()}", **WAIT)
        return client.is_job_succeeded(f"image-{kind.lower()}")
    return error_of(lambda: client.create_job(name=f"image-{kind.lower()}", base_image="any:1", num_workers=1))


def objects(client, kind):
    """A ConfigMap and a Secret, read by a job as files and as variables; an emptyDir to write to."""
    core = client.core_api
    metadata = models.V1ObjectMeta
    core.create_namespaced_config_map(
        NAMESPACE, kubernetes.V1ConfigMap(metadata=metadata(name="words"), data={"greeting": "hello", "who": "world"})
    )
    core.create_namespaced_secret(
        NAMESPACE, kubernetes.V1Secret(metadata=metadata(name="keys"), string_data={"token": "sesame"})
    )
    script = "cat /etc/words/greeting; echo; echo $TOKEN $WHO $(WHO) $(POD); cd /scratch && touch made && ls"
    job = job_of(kind, "objects", "sleep 600")
    pod = job.spec.tf_replica_specs["Chief"].template.spec
    pod.containers[0].command = ["sh", "-c", script]
    pod.volumes = [
        models.V1Volume(name="words", config_map=models.V1ConfigMapVolumeSource(name="words")),
        models.V1Volume(name="scratch", empty_dir=models.V1EmptyDirVolumeSource()),
    ]
    pod.containers[0].volume_mounts = [
        models.V1VolumeMount(name="words", mount_path="/etc/words"),
        models.V1VolumeMount(name="scratch", mount_path="/scratch"),
    ]
    pod.containers[0].env_from = [{"configMapRef": {"name": "words"}}]
    pod.containers[0].env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "who"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    client.create_job(job)
    client.wait_for_job_conditions("objects", **WAIT)
    core.delete_namespaced_secret("keys", NAMESPACE)
    names = [item.metadata.name for item in core.list_namespaced_config_map(NAMESPACE).items]
    return {"logs": client.get_job_logs("objects")[0], "left": names}


def error_of(action):
    try:
        action()
    except RuntimeError as error:
        return str(error)
    return None


def until(condition):
    deadline = time.monotonic() + 180
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        threading.Event().wait(0.1)


SCENARIOS = {
    **{f"life {kind}": (life, kind) for kind in FIELDS},
    **{f"suspension {kind}": (suspension, kind) for kind in FIELDS},
    **{f"function {kind}": (function, kind) for kind in ("TFJob", "PyTorchJob")},
    "image PyTorchJob": (image, "PyTorchJob"),
    "objects TFJob": (objects, "TFJob"),
}


def run(scenario, kind):
    try:
        return {"saw": scenario(TrainingClient(config_file=sys.argv[1], job_kind=kind, namespace=NAMESPACE), kind)}
    except Exception:  # noqa: BLE001  # told to the test that reads it
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    # The SDK prints what it follows; our answer is all that may stand on standard output.
    answer, sys.stdout = sys.stdout, sys.stderr
    with ThreadPoolExecutor(max_workers=len(SCENARIOS)) as pool:
        running = {name: pool.submit(run, *scenario) for name, scenario in SCENARIOS.items()}
    print(json.dumps({name: future.result() for name, future in running.items()}), file=answer)
