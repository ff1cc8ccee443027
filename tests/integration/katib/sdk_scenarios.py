"""What users of the Katib SDK do. Runs in the SDK's own environment, and knows nothing of Gangline.

Usage: sdk_scenarios.py KUBECONFIG [IMAGE NAMESPACE [OMITTED]...]. Every scenario runs in a thread of its own; what each
saw, or why it failed, is printed as one JSON document. With an image it is a cluster that is spoken to.
"""

import json
import os
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import kubeflow.katib as katib
from kubeflow.katib import KatibClient, models
from kubeflow.katib.types.types import TrainerResources
from kubernetes import client as kubernetes

CLUSTER = len(sys.argv) > 2
IMAGE = sys.argv[2] if CLUSTER else "any"
NAMESPACE = sys.argv[3] if CLUSTER else "default"
WAIT = {"polling_interval": 1, "timeout": 180}
SMALL = {"cpu": "0.05", "memory": "128Mi"}


def score(parameters):
    rate, layers = float(parameters["rate"]), int(parameters["layers"])
    for epoch in range(3):
        print(f"epoch {epoch}: score={rate * layers + epoch / 100} other=1", flush=True)


def slow(parameters):
    import threading

    print(f"rate {parameters['rate']}", flush=True)
    print("score=1", flush=True)
    threading.Event().wait(600)


def push(parameters):
    import kubeflow.katib as inside

    for step in range(3):
        inside.report_metrics({"score": float(parameters["rate"]) + step})


def silent(parameters):
    print(parameters["rate"])


def failing(parameters):
    raise SystemExit(f"never with {parameters['rate']}")


def rate(**bounds):
    return {"rate": katib.search.double(**({"min": 0.1, "max": 0.9} | bounds))}


def tune(client, name, objective, parameters, **rest):
    client.tune(
        name=name,
        objective=objective,
        parameters=parameters,
        base_image=IMAGE,
        objective_metric_name="score",
        **{"max_trial_count": 4, "parallel_trial_count": 2, "resources_per_trial": SMALL, **rest},
    )


def function(client):
    """A function of the user's with a search that learns, from its submission to its deletion."""
    parameters = {**rate(), "layers": katib.search.int(min=1, max=4), "extra": 7}
    tune(client, "function", score, parameters, algorithm_name="tpe", additional_metric_names=["other"])
    until(lambda: client.is_experiment_created("function"))
    done = client.wait_for_experiment_condition("function", **WAIT)
    best = client.get_optimal_hyperparameters("function")
    trials = client.list_trials("function")
    found = client.get_trial(trials[0].metadata.name)
    suggestion = client.get_suggestion("function")
    seen = {
        "conditions": {each.type: (each.status, each.reason) for each in done.status.conditions},
        "counts": [done.status.trials, done.status.trials_succeeded, len(done.status.succeeded_trial_list)],
        "best": {each.name: each.value for each in best.parameter_assignments},
        "best_name": best.best_trial_name,
        "metrics": {each.name: (each.min, each.max, each.latest) for each in best.observation.metrics},
        "values": {
            each["name"]: {one.name: one.value for one in each["parameter_assignments"]}
            for each in client.get_success_trial_details("function")
        },
        "trial": [found.metadata.labels["katib.kubeflow.org/experiment"], found.status.conditions[-1].type],
        "suggestions": suggestion.status.suggestion_count,
        "listed": "function" in [each.metadata.name for each in client.list_experiments()],
        "all_trials": len([each for each in client.list_trials() if each.metadata.name.startswith("function-")]),
        "taken": error_of(lambda: tune(client, "function", score, rate())),
    }
    client.delete_experiment("function")
    until(lambda: error_of(lambda: client.get_experiment("function")) and not client.list_trials("function"))
    return seen


def budget(client):
    """An Experiment that is given more trials when it has used its own."""
    client.create_experiment(experiment("budget", resume_policy="LongRunning"))
    client.wait_for_experiment_condition("budget", **WAIT)
    before = len(client.list_trials("budget"))
    client.edit_experiment_budget("budget", max_trial_count=4)
    until(lambda: len(client.list_trials("budget")) == 4)
    done = client.wait_for_experiment_condition("budget", **WAIT)
    return {"before": before, "after": done.status.trials_succeeded, "most": done.spec.max_trial_count}


def no_more(client):
    """One that may not go on is refused, or stays as it is where a cluster takes the edit."""
    client.create_experiment(experiment("no-more", resume_policy="Never"))
    client.wait_for_experiment_condition("no-more", **WAIT)
    refused = error_of(lambda: client.edit_experiment_budget("no-more", max_trial_count=9))
    return {"refused": refused, "trials": len(client.list_trials("no-more"))}


def experiment(name, **rest):
    container = kubernetes.V1Container(
        name="main", image=IMAGE, command=["sh", "-c", "echo score=${trialParameters.rate}"]
    )
    pod = kubernetes.V1PodSpec(containers=[container], restart_policy="Never")
    job = kubernetes.V1Job(
        api_version="batch/v1",
        kind="Job",
        spec=kubernetes.V1JobSpec(template=kubernetes.V1PodTemplateSpec(spec=pod), backoff_limit=0),
    )
    space = models.V1beta1FeasibleSpace(min="0.1", max="0.9")
    return models.V1beta1Experiment(
        api_version="kubeflow.org/v1beta1",
        kind="Experiment",
        metadata=models.V1ObjectMeta(name=name, namespace=NAMESPACE),
        spec=models.V1beta1ExperimentSpec(
            max_trial_count=2,
            parallel_trial_count=2,
            objective=models.V1beta1ObjectiveSpec(type="maximize", objective_metric_name="score"),
            algorithm=models.V1beta1AlgorithmSpec(algorithm_name="random"),
            parameters=[models.V1beta1ParameterSpec(name="rate", parameter_type="double", feasible_space=space)],
            trial_template=models.V1beta1TrialTemplate(
                primary_container_name="main",
                trial_parameters=[models.V1beta1TrialParameterSpec(name="rate", reference="rate")],
                trial_spec=job,
            ),
            **rest,
        ),
    )


def pushing(client):
    """Trials that push their own numbers."""
    env = None if CLUSTER else {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    # The SDK limits a trial to what it asks for, and importing the SDK itself takes seconds.
    how = {"max_trial_count": 2, "env_per_trial": env, "resources_per_trial": {"cpu": "0.5", "memory": "256Mi"}}
    how["metrics_collector_config"] = {"kind": "Push"}
    tune(client, "pushing", push, rate(), **how)
    done = client.wait_for_experiment_condition("pushing", **WAIT)
    (metric,) = done.status.current_optimal_trial.observation.metrics
    return {"succeeded": done.status.trials_succeeded, "range": float(metric.max) - float(metric.min)}


def gang(client):
    """A training job of Kubeflow for each trial."""
    resources = TrainerResources(num_workers=1, num_procs_per_worker=1, resources_per_worker=SMALL)
    parameters = {**rate(), "layers": katib.search.int(min=1, max=2)}
    tune(client, "gang", score, parameters, resources_per_trial=resources, max_trial_count=1, parallel_trial_count=1)
    done = client.wait_for_experiment_condition("gang", **WAIT)
    (trial,) = client.list_trials("gang")
    return {"kind": trial.spec.run_spec["kind"], "succeeded": done.status.trials_succeeded}


def logs(client):
    """What a trial writes, while it runs."""
    tune(client, "logs", slow, rate(), max_trial_count=1, parallel_trial_count=1)
    client.wait_for_experiment_condition("logs", expected_condition="Running", **WAIT)
    until(lambda: [each for each in client.list_trials("logs") if each.status.conditions[-1].type == "Running"])
    (trial,) = client.list_trials("logs")
    until(lambda: "score=1" in written(client, trial.metadata.name))
    said = written(client, trial.metadata.name)
    client.delete_experiment("logs")
    return said


def written(client, trial):
    core = client.core_api
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"katib.kubeflow.org/trial={trial}").items
    if CLUSTER:  # the SDK asks for Katib's own sidecar, which is not there
        try:
            return "\n".join(core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE) for pod in pods)
        except kubernetes.ApiException as error:
            if error.status != 400:
                raise
            return ""  # the container is still being created
    return "\n".join(client.get_job_logs("logs", trial))


def nothing_reported(client):
    """A metric that never comes."""
    tune(client, "silent", silent, rate(), max_failed_trial_count=2)
    said = error_of(lambda: client.wait_for_experiment_condition("silent", **WAIT))
    found = client.get_experiment("silent")
    return {
        "said": said,
        "unavailable": found.status.trial_metrics_unavailable,
        "condition": found.status.conditions[-1].message,
    }


def always_failing(client):
    """A trial that fails whatever it tries."""
    made = experiment("failing", max_failed_trial_count=1)
    (container,) = made.spec.trial_template.trial_spec.spec.template.spec.containers
    container.command = ["sh", "-c", "echo ${trialParameters.rate}; exit 7"]
    client.create_experiment(made)
    said = error_of(lambda: client.wait_for_experiment_condition("failing", **WAIT))
    found = client.get_experiment("failing")
    return {"said": said, "failed": found.status.trials_failed, "reason": found.status.conditions[-1].reason}


def error_of(action):
    try:
        action()
    except Exception as error:  # noqa: BLE001  # the SDK raises all kinds
        return f"{type(error).__name__}: {error} {error.__context__ or ''}"
    return None


def until(condition):
    deadline = time.monotonic() + 180
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        threading.Event().wait(0.3)


SCENARIOS = [function, budget, no_more, gang, logs, nothing_reported, always_failing, pushing]


def run(scenario):
    try:
        return {"saw": scenario(KatibClient(config_file=sys.argv[1], namespace=NAMESPACE))}
    except Exception:  # noqa: BLE001  # told to the test that reads it
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    # The SDK prints what it waits for; our answer is all that may stand on standard output.
    answer, sys.stdout = sys.stdout, sys.stderr
    wanted = [each for each in SCENARIOS if not CLUSTER or each.__name__ not in sys.argv[4:]]
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        running = {each.__name__: pool.submit(run, each) for each in wanted}
    print(json.dumps({name: future.result() for name, future in running.items()}), file=answer)
