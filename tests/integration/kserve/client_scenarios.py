"""Run by the Python of an environment with the PyPI package kserve; prints what was seen as JSON.

FOLDER has a model, for one machine; on a cluster it is an IMAGE with Python that can be run.
"""

import json
import sys
import time
import urllib.request

from kserve import (
    KServeClient,
    V1beta1InferenceService,
    V1beta1InferenceServiceSpec,
    V1beta1ModelFormat,
    V1beta1ModelSpec,
    V1beta1PredictorSpec,
    V1beta1TransformerSpec,
)
from kubernetes.client import V1Container, V1EnvVar, V1ObjectMeta, V1ResourceRequirements

FOLDER, NAMESPACE, *CLUSTER = sys.argv[1:]
SMALL = V1ResourceRequirements(requests={"cpu": "100m", "memory": "128Mi"})
client = KServeClient()


def service(name, transformer=None, **predictor):
    return V1beta1InferenceService(
        api_version="serving.kserve.io/v1beta1",
        kind="InferenceService",
        metadata=V1ObjectMeta(name=name, namespace=NAMESPACE, annotations={"note": "kept"}),
        spec=V1beta1InferenceServiceSpec(predictor=V1beta1PredictorSpec(**predictor), transformer=transformer),
    )


def post(address, body):
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def a_model():
    model = V1beta1ModelSpec(
        model_format=V1beta1ModelFormat(name="numpy"), storage_uri=f"file://{FOLDER}", resources=SMALL
    )
    created = client.create(service("digits", model=model, min_replicas=1, max_replicas=2))
    client.wait_isvc_ready("digits", namespace=NAMESPACE, timeout_seconds=120, polling_interval=0.2)
    found = client.get("digits", namespace=NAMESPACE)
    answer = post(f"{found['status']['url']}/v1/models/digits:predict", {"instances": [[1.0, 2.0]]})
    listed = [each["metadata"]["name"] for each in client.get(namespace=NAMESPACE)["items"]]
    return {
        "annotations": created["metadata"]["annotations"],
        "generation": [created["metadata"]["generation"], found["status"]["observedGeneration"]],
        "conditions": {each["type"]: each["status"] for each in found["status"]["conditions"]},
        "predictions": answer["predictions"],
        "model": found["status"]["modelStatus"]["states"]["activeModelState"],
        "traffic": found["status"]["components"]["predictor"]["traffic"],
        "listed": listed,
    }


def container(word):
    program = (
        "import os, sys, http.server as h\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(os.environ['WORD'].encode())\n"
        "    def log_message(self, *_): pass\n"
        "h.ThreadingHTTPServer((os.environ['HOST'], int(sys.argv[1])), H).serve_forever()\n"
    )
    return V1Container(
        name="kserve-container",
        image=FOLDER if CLUSTER else "any",
        command=["python3", "-c", program],
        args=["$(PORT)"],
        env=[V1EnvVar(name="WORD", value=word)],
        resources=SMALL,
    )


def a_transformer():
    """Twice what it is sent goes to the predictor, and a hundred more than that answers comes back."""
    program = (
        "import argparse, json, os, urllib.request, http.server as h\n"
        "parser = argparse.ArgumentParser()\n"
        "for name in ('--model_name', '--predictor_host', '--http_port'): parser.add_argument(name, required=True)\n"
        "given = parser.parse_args()\n"
        "address = f'http://{given.predictor_host}/v1/models/{given.model_name}:predict'\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        sent = json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        body = {'instances': [[2 * number for number in row] for row in sent['instances']]}\n"
        "        request = urllib.request.Request(address, json.dumps(body).encode())\n"
        "        found = json.load(urllib.request.urlopen(request, timeout=60))['predictions']\n"
        "        answer = json.dumps({'predictions': [[number + 100 for number in row] for row in found]}).encode()\n"
        "        self.send_response(200); self.send_header('Content-Length', str(len(answer))); self.end_headers()\n"
        "        self.wfile.write(answer)\n"
        "    def log_message(self, *_): pass\n"
        "h.ThreadingHTTPServer((os.environ['HOST'], int(given.http_port)), H).serve_forever()\n"
    )
    model = V1beta1ModelSpec(
        model_format=V1beta1ModelFormat(name="numpy"), storage_uri=f"file://{FOLDER}", resources=SMALL
    )
    container = V1Container(name="kserve-container", image="any", command=["python3", "-c", program], resources=SMALL)
    client.create(service("changed", V1beta1TransformerSpec(containers=[container]), model=model))
    client.wait_isvc_ready("changed", namespace=NAMESPACE, timeout_seconds=120, polling_interval=0.2)
    status = client.get("changed", namespace=NAMESPACE)["status"]
    sent = {"instances": [[1.0, 2.0]]}
    seen = {
        "conditions": {each["type"]: each["status"] for each in status["conditions"]},
        "components": {name: each["latestReadyRevision"] for name, each in status["components"].items()},
        "predictions": post(f"{status['url']}/v1/models/changed:predict", sent)["predictions"],
        "predictor": post(f"{status['components']['predictor']['url']}/v1/models/changed:predict", sent)["predictions"],
    }
    replaced = client.replace("changed", service("changed", model=model), namespace=NAMESPACE)
    client.wait_isvc_ready(
        "changed",
        namespace=NAMESPACE,
        timeout_seconds=120,
        polling_interval=0.2,
        expected_generation=replaced["metadata"]["generation"],
    )
    status = client.get("changed", namespace=NAMESPACE)["status"]
    seen["alone"] = sorted(status["components"])
    seen["predictions alone"] = post(f"{status['url']}/v1/models/changed:predict", sent)["predictions"]
    return seen


def answers(address, many):
    found = []
    for _ in range(many):
        with urllib.request.urlopen(address, timeout=60) as answer:
            found.append(answer.read().decode())
    return {word: found.count(word) for word in set(found)}


def until(holds):
    deadline = time.monotonic() + 120
    while not holds(found := client.get("words", namespace=NAMESPACE)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)  # noqa: TID251  # the client of others has no event to wait for
    return found


def shares(found):
    return sorted(each["percent"] for each in found["status"]["components"]["predictor"]["traffic"])


def a_canary():
    client.create(service("words", containers=[container("one")]))
    client.wait_isvc_ready("words", namespace=NAMESPACE, timeout_seconds=120, polling_interval=0.2)
    canary = service("words", containers=[container("two")], canary_traffic_percent=20)
    patched = client.patch("words", canary, namespace=NAMESPACE)
    found = until(lambda each: shares(each) == [20, 80])
    split = answers(found["status"]["url"], 20)
    replaced = client.replace("words", service("words", containers=[container("two")]), namespace=NAMESPACE)
    generation = replaced["metadata"]["generation"]
    client.wait_isvc_ready(
        "words", namespace=NAMESPACE, timeout_seconds=120, polling_interval=0.2, expected_generation=generation
    )
    found = until(lambda each: shares(each) == [100])
    return {
        "generations": [patched["metadata"]["generation"], generation],
        "split": split,
        "promoted": answers(found["status"]["url"], 5),
        "rolled out": found["status"]["components"]["predictor"]["latestRolledoutRevision"],
    }


def refusals():
    seen = {}
    model = V1beta1ModelSpec(model_format=V1beta1ModelFormat(name="nothing"), storage_uri="file:///nowhere")
    for name, each in (("format", service("bad", model=model)), ("empty", service("bad"))):
        try:
            client.create(each)
        except RuntimeError as error:
            seen[name] = str(error)
    return seen


def gone(name):
    client.delete(name, namespace=NAMESPACE)
    try:
        client.get(name, namespace=NAMESPACE)
    except RuntimeError as error:
        return "404" in str(error)
    return False


def a_container():
    client.create(service("words", containers=[container("one")]))
    client.wait_isvc_ready("words", namespace=NAMESPACE, timeout_seconds=120, polling_interval=0.5)
    return client.get("words", namespace=NAMESPACE)["status"]


if CLUSTER:
    seen = {"container": a_container()}
else:
    seen = {"model": a_model(), "canary": a_canary(), "refusals": refusals()}
    seen["transformer"] = a_transformer()
    seen["gone"] = [gone(name) for name in ("digits", "words", "changed")]
print(json.dumps(seen))
