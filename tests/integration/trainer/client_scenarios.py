"""Run by the Python of an environment with the PyPI package kubeflow; prints what was seen as JSON.

DATA is the address of a folder with a file ``numbers.txt``, to be fetched by an initializer. Where BIN is not empty it
has what stands in for torchrun: a runtime with ``torch`` starts that, and PyTorch is not installed here.
"""

import json
import os
import sys
import time

from kubeflow.trainer import (
    CustomTrainer,
    KubernetesBackendConfig,
    TrainerClient,
)
from kubeflow.trainer.options import ActiveDeadlineSeconds
from kubernetes import client as kubernetes
from kubernetes import config

DATA, BIN, IMAGE, NAMESPACE = sys.argv[1:]
config.load_kube_config()
objects = kubernetes.CustomObjectsApi()
GROUP = ("trainer.kubeflow.org", "v1alpha1")
client = TrainerClient(backend_config=KubernetesBackendConfig(namespace=NAMESPACE))
SMALL = {"cpu": "100m", "memory": "64Mi"}


def runtime(name, policy):
    container = {"name": "node", "image": IMAGE, "env": [{"name": "FROM", "value": "runtime"}]}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"name": "node", "template": {"metadata": {"labels": labels}, **template}}
    return {
        "apiVersion": "/".join(GROUP),
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def train(word):
    import os

    print("trained", word, os.environ["GANGLINE_INDEX"], os.environ["GANGLINE_WORLD_SIZE"], os.environ["FROM"])
    path = os.environ.get("GANGLINE_METRICS")
    if path:
        with open(path, "a") as file:  # noqa: PTH123  # as people write it
            file.write('{"at": 1.0, "name": "progress", "value": 0.5, "step": 5}\n')
            file.write('{"at": 1.0, "name": "loss", "value": 0.25, "step": 5}\n')


def where():
    import os

    names = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT")
    names += ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "DMLC_NUM_WORKER", "DMLC_TASK_ID")
    print({name: os.environ[name] for name in names if name in os.environ})


def fail():
    raise SystemExit("no such luck")


def read():
    print(open("/workspace/dataset/numbers.txt").read())  # noqa: SIM115, PTH123  # as people write it


def sleep():
    import time

    time.sleep(600)  # noqa: TID251  # it is stopped long before


def ended(name, wanted):
    client.wait_for_job_status(name, status={wanted}, timeout=300, polling_interval=1)
    return name


def raw(name):
    return objects.get_namespaced_custom_object(*GROUP, NAMESPACE, "trainjobs", name)


def printed(name, step):
    # On a cluster numbers travel with the output.
    return [line for line in client.get_job_logs(name, step=step) if not line.startswith('{"at"')]


def a_function():
    before = sorted(each.name for each in client.list_runtimes())
    trainer = CustomTrainer(func=train, func_args={"word": "well"}, num_nodes=2, resources_per_node=SMALL)
    name = ended(client.train(runtime="plain", trainer=trainer), "Complete")
    found, until = client.get_job(name), time.monotonic() + 60
    while any(step.status == "Running" for step in found.steps) and time.monotonic() < until:
        time.sleep(0.1)  # noqa: TID251  # a kubelet tells that a container has ended before it tells it of the pod
        found = client.get_job(name)
    seen = {
        "runtimes": before,
        "status": found.status,
        "steps": sorted((step.name, step.status) for step in found.steps),
        "logs": [printed(name, f"node-{index}") for index in (0, 1)],
        "events": sorted({(each.involved_object_kind, each.reason) for each in client.get_job_events(name)}),
        "listed": name in [each.name for each in client.list_jobs()],
        "object": raw(name),
    }
    client.delete_job(name)
    try:
        client.get_job(name)
    except RuntimeError:
        seen["gone"] = True
    return seen


def variables(name):
    path = {"PATH": f"{BIN}:{os.environ['PATH']}"} if BIN else {}
    trainer = CustomTrainer(func=where, num_nodes=2, resources_per_node=SMALL, env=path)
    return list(client.get_job_logs(ended(client.train(runtime=name, trainer=trainer), "Complete"), step="node-1"))


def failures():
    trainer = CustomTrainer(func=fail, resources_per_node=SMALL)
    return raw(ended(client.train(runtime="plain", trainer=trainer), "Failed"))["status"]["conditions"]


def a_deadline():
    trainer = CustomTrainer(func=sleep, resources_per_node=SMALL)
    name = client.train(runtime="plain", trainer=trainer, options=[ActiveDeadlineSeconds(1)])
    return raw(ended(name, "Failed"))["status"]["conditions"]


def data():
    trainer = CustomTrainer(func=read, resources_per_node=SMALL)
    body = {
        "apiVersion": "/".join(GROUP),
        "kind": "TrainJob",
        "metadata": {"name": "fetching"},
        "spec": client.backend._get_trainjob_spec(runtime="plain", trainer=trainer).to_dict(),
    }
    body["spec"]["initializer"] = {"dataset": {"storageUri": DATA}}
    objects.create_namespaced_custom_object(*GROUP, NAMESPACE, "trainjobs", body)
    return list(client.get_job_logs(ended("fetching", "Complete")))


def suspension():
    trainer = CustomTrainer(func=sleep, resources_per_node=SMALL)
    name = client.train(runtime="plain", trainer=trainer)
    ended(name, "Running")
    change = objects.patch_namespaced_custom_object
    change(*GROUP, NAMESPACE, "trainjobs", name, {"spec": {"suspend": True}})
    while not (raw(name)["status"]["jobsStatus"] or [{}])[0].get("suspended"):
        time.sleep(0.1)  # noqa: TID251  # the client of others has no event to wait for
    resting = raw(name)["status"]
    change(*GROUP, NAMESPACE, "trainjobs", name, {"spec": {"suspend": False}})
    ended(name, "Running")
    client.delete_job(name)
    return resting


def refusals():
    seen = {}
    for name, body in {
        "runtime": {"runtimeRef": {"name": "nothing"}},
        "hugging face": {
            "runtimeRef": {"name": "plain", "kind": "TrainingRuntime"},
            "initializer": {"dataset": {"storageUri": "hf://a/b"}},
        },
        "field": {"runtimeRef": {"name": "plain"}, "trainers": {}},
    }.items():
        document = {"metadata": {"name": "bad"}, "spec": body}
        try:
            objects.create_namespaced_custom_object(*GROUP, NAMESPACE, "trainjobs", document)
        except kubernetes.ApiException as error:
            seen[name] = json.loads(error.body)["message"]
    return seen


for each, policy in {
    "plain": {},
    "torch-like": {"torch": {"numProcPerNode": 3}},
    "jax-like": {"jax": {}},
    "xgboost-like": {"xgboost": {}},
}.items():
    objects.create_namespaced_custom_object(*GROUP, NAMESPACE, "trainingruntimes", runtime(each, policy))
seen = {
    "function": a_function(),
    "variables": {name: variables(name) for name in ("torch-like", "jax-like", "xgboost-like")},
    "failures": failures(),
    "deadline": a_deadline(),
    "data": data(),
    "suspension": suspension(),
    "refusals": refusals(),
}
print(json.dumps(seen))
