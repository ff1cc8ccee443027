"""Run by the Python of an environment with the PyPI package kubeflow; prints what its OptimizerClient saw as JSON."""

import json
import sys

from kubeflow.optimizer import GridSearch, Objective, OptimizerClient, Search, TrialConfig
from kubeflow.trainer import CustomTrainer, KubernetesBackendConfig, TrainerClient, TrainJobTemplate
from kubernetes import client as kubernetes
from kubernetes import config

IMAGE, NAMESPACE = sys.argv[1:]
config.load_kube_config()
objects = kubernetes.CustomObjectsApi()
GROUP = ("trainer.kubeflow.org", "v1alpha1")
backend = KubernetesBackendConfig(namespace=NAMESPACE)
client, trainer_client = OptimizerClient(backend_config=backend), TrainerClient(backend_config=backend)
WAIT = {"timeout": 300, "polling_interval": 1}


def runtime(name):
    template = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": IMAGE}]}}}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"name": "node", "template": {"metadata": {"labels": labels}, **template}}
    return {
        "apiVersion": "/".join(GROUP),
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def train(rate, depth, word):
    import os

    print(word, os.environ["GANGLINE_WORLD_SIZE"], flush=True)
    print(f"score={float(rate) * int(depth)}", flush=True)


def fail(rate):
    raise SystemExit(f"never with {rate}")


def template(function, **rest):
    trainer = CustomTrainer(func=function, resources_per_node={"cpu": "100m", "memory": "64Mi"}, **rest)
    return TrainJobTemplate(runtime=client.backend.trainer_backend.get_runtime("trying"), trainer=trainer)


def a_search():
    name = client.optimize(
        template(train, func_args={"word": "well"}, num_nodes=2),
        search_space={"rate": Search.choice([0.1, 0.5]), "depth": Search.choice([1, 3])},
        objectives=[Objective(metric="score", direction="maximize")],
        algorithm=GridSearch(),
        trial_config=TrialConfig(num_trials=4, parallel_trials=2),
    )
    done = client.wait_for_job_status(name, **WAIT)
    best = client.get_best_results(name)
    trial = max(done.trials, key=lambda each: float(each.metrics[0].latest))
    seen = {
        "status": done.status,
        "trials": [[each.parameters, each.metrics[0].latest, each.trainjob.status] for each in done.trials],
        "nodes": trial.trainjob.num_nodes,
        "steps": sorted((step.name, step.status) for step in trial.trainjob.steps),
        "best": [best.parameters, best.metrics[0].latest],
        "logs": [
            line
            for line in trainer_client.get_job_logs(trial.name, step="node-1")
            if not line.startswith('{"at"')  # on a cluster numbers travel with the output
        ],
        "listed": name in [each.name for each in client.list_jobs()],
        "train_jobs": {each.name for each in done.trials} <= {each.name for each in trainer_client.list_jobs()},
    }
    client.delete_job(name)
    try:
        client.get_job(name)
    except RuntimeError:
        seen["gone"] = True
    return seen


def a_failure():
    name = client.optimize(
        template(fail),
        search_space={"rate": Search.uniform(0.1, 0.9)},
        objectives=[Objective(metric="score")],
        trial_config=TrialConfig(num_trials=2, parallel_trials=1, max_failed_trials=1),
    )
    done = client.wait_for_job_status(name, status={"Failed"}, **WAIT)
    return [each.trainjob.status for each in done.trials]


def a_missing_runtime():
    wanted = template(train, func_args={"word": "well"})
    wanted.runtime.name = "nothing"
    try:
        client.optimize(wanted, search_space={"rate": Search.uniform(0.1, 0.9), "depth": Search.choice([1])})
    except RuntimeError as error:
        return json.loads(error.__cause__.body)["message"]


objects.create_namespaced_custom_object(*GROUP, NAMESPACE, "trainingruntimes", runtime("trying"))
seen = {"search": a_search(), "failure": a_failure()}
if IMAGE == "any":  # a cluster takes every object; what is wrong with one stands in its conditions
    seen["missing"] = a_missing_runtime()
print(json.dumps(seen))
