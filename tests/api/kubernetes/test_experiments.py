"""Katib's objects as clients of Kubernetes ask for them, over HTTP."""

import base64
import json
from typing import Any

import aiohttp
import pytest

from tests.api.kubernetes.conftest import TOKEN
from tests.dialects.katib.experiments import DOCUMENT, changed

BASE = "/apis/kubeflow.org/v1beta1/namespaces/default"


async def create(session: aiohttp.ClientSession, document: dict[str, Any] = DOCUMENT, want: int = 201) -> Any:
    async with session.post(f"{BASE}/experiments", json=document) as answer:
        found = await answer.json()
        assert answer.status == want, found
        return found


async def ask(session: aiohttp.ClientSession, path: str, want: int = 200) -> Any:
    async with session.get(path) as answer:
        found = await answer.json()
        assert answer.status == want, found
        return found


async def test_an_experiment_is_created_shown_listed_and_deleted(session: aiohttp.ClientSession) -> None:
    made = await create(session)
    assert made["status"]["conditions"][0]["type"] == "Created"
    assert made["spec"]["objective"]["metricStrategies"] == [{"name": "loss", "value": "min"}]
    assert (await ask(session, f"{BASE}/experiments/mnist"))["metadata"]["uid"] == made["metadata"]["uid"]
    listed = await ask(session, f"{BASE}/experiments")
    assert (listed["kind"], len(listed["items"])) == ("ExperimentList", 1)
    assert (await ask(session, f"{BASE}/suggestions/mnist"))["spec"]["algorithm"] == {"algorithmName": "random"}
    assert (await ask(session, f"{BASE}/trials?labelSelector=katib.kubeflow.org/experiment%3Dmnist"))["items"] == []
    await create(session, want=409)
    async with session.delete(f"{BASE}/experiments/mnist") as answer:
        assert answer.status == 200
    await ask(session, f"{BASE}/experiments/mnist", want=404)


async def test_what_is_wrong_is_refused_with_its_field(session: aiohttp.ClientSession) -> None:
    said = await create(session, changed("spec.maxTrialCount", 0), want=422)
    assert said["message"].startswith("spec.maxTrialCount: 0 is too small")
    container = "spec.trialTemplate.trialSpec.spec.template.spec.containers.1.command"
    said = await create(session, changed(container, None), want=422)
    assert "trialParameters.rate" in said["message"] or "trialParameter 'rate'" in said["message"]


async def test_the_budget_is_patched_as_the_sdk_does_it_with_all_that_it_read(session: aiohttp.ClientSession) -> None:
    made = await create(session)
    made["spec"]["maxTrialCount"] = 9
    headers = {"Content-Type": "application/merge-patch+json"}
    async with session.patch(f"{BASE}/experiments/mnist", data=json.dumps(made), headers=headers) as answer:
        found = await answer.json()
        assert (answer.status, found["spec"]["maxTrialCount"]) == (200, 9), found
    found["spec"]["objective"]["goal"] = 1
    async with session.patch(f"{BASE}/experiments/mnist", data=json.dumps(found), headers=headers) as answer:
        assert answer.status == 422
        assert "spec.objective: it cannot be changed" in (await answer.json())["message"]


@pytest.mark.parametrize("plural", ["trials", "suggestions"])
async def test_what_follows_from_an_experiment_cannot_be_made(session: aiohttp.ClientSession, plural: str) -> None:
    async with session.post(f"{BASE}/{plural}", json={}) as answer:
        assert answer.status == 405


async def test_kubectl_finds_the_kinds_and_that_their_fields_are_checked(session: aiohttp.ClientSession) -> None:
    found = await ask(session, "/apis/kubeflow.org/v1beta1")
    assert {each["name"] for each in found["resources"]} == {"experiments", "trials", "suggestions"}
    (path,) = [each for each in (await ask(session, "/openapi/v3"))["paths"] if each.endswith("kubeflow.org/v1beta1")]
    described = await ask(session, f"/openapi/v3/{path}")
    patch = described["paths"][f"/{path}/namespaces/{{namespace}}/experiments/{{name}}"]["patch"]
    assert patch["parameters"][0]["name"] == "fieldValidation"


@pytest.mark.parametrize(("password", "want"), [(TOKEN, 200), ("guess", 401)])
async def test_the_token_may_be_the_password_in_the_address(address: str, password: str, want: int) -> None:
    credentials = base64.b64encode(f"gangline:{password}".encode()).decode()
    async with aiohttp.ClientSession(address, headers={"Authorization": f"Basic {credentials}"}) as client:
        await ask(client, f"{BASE}/experiments", want=want)
    async with aiohttp.ClientSession(address, headers={"Authorization": "Basic !"}) as client:
        await ask(client, f"{BASE}/experiments", want=401)
