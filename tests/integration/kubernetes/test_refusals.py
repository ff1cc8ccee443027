"""Bad input on a real cluster: each shows its reason within seconds, and nothing is held meanwhile."""

import json

import pytest

from gangline.kube import CONFIG_MAPS, SECRETS, Resource
from gangline.kube.objects import GenericObject
from gangline.model import Phase, Policy, ReplicaState, RoleSpec
from gangline.testing.builders import make_role
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import SERVE, World, eventually, shell
from tools.cluster import BUSYBOX

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)

ONE_TRY = Policy(grace_seconds=1.0)
EVERYWHERE = "kube-root-ca.crt"
"""A ConfigMap that every namespace has."""
NO_ITEM = [{"key": "nowhere", "path": "p"}]
MISSING_KEY = {"name": EVERYWHERE, "key": "nowhere"}
QUOTAS = Resource(plural="resourcequotas", kind="ResourceQuota", type=GenericObject)


def templated(spec: dict[str, object]) -> RoleSpec:
    container = {"name": "main", "image": BUSYBOX, **spec.pop("main", {})}
    return make_role(
        command=("sh", "-c", SERVE),
        resources=SMALL,
        pod_template_json=json.dumps({"spec": {"containers": [container], **spec}}),
    )


CASES = {
    "an image that cannot be pulled": (
        make_role(command=("true",), image="gangline.invalid/none:1", resources=SMALL),
        "ImageUnavailable",
        "gangline.invalid/none:1",
    ),
    "no image at all": (make_role(command=("true",), resources=SMALL), "ImageMissing", "role 'worker'"),
    "a command that is not there": (
        make_role(command=("no-such-program",), image=BUSYBOX, resources=SMALL),
        "ReplicaFailed",
        "exited with 127",
    ),
    "a variable from a key that its ConfigMap has not": (
        templated({"main": {"env": [{"name": "V", "valueFrom": {"configMapKeyRef": MISSING_KEY}}]}}),
        "ContainerConfigError",
        "couldn't find key nowhere",
    ),
    "a volume from a key that its ConfigMap has not": (
        templated({"volumes": [{"name": "v", "configMap": {"name": EVERYWHERE, "items": NO_ITEM}}],
                   "main": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}}),
        "VolumeUnavailable",
        "references non-existent config key: nowhere",
    ),
    "an object the server finds invalid": (
        templated({"main": {"ports": [{"containerPort": 99_999}]}}),
        "InvalidObject",
        "spec.containers[0].ports[0].containerPort",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "want_reason", "want_text"), CASES.values(), ids=CASES)
async def test_a_bad_job_fails_with_its_reason(world: World, role: RoleSpec, want_reason: str, want_text: str) -> None:
    job_id = await world.submit(role, policy=ONE_TRY)
    job = await world.phase(job_id, Phase.FAILED)
    assert job.reason == want_reason
    assert want_text in job.message
    await world.until(job_id, lambda job: not job.holding)
    assert await world.pods() == []


async def test_a_job_waits_without_machines_until_what_its_template_names_is_there(world: World) -> None:
    settings = {"name": "settings", "configMap": {"name": "settings"}}
    main = {"envFrom": [{"secretRef": {"name": "token"}}], "volumeMounts": [{"name": "settings", "mountPath": "/s"}]}
    job_id = await world.submit(templated({"main": main, "volumes": [settings]}), policy=ONE_TRY)

    async def is_told(text: str) -> None:
        async def told() -> bool:
            why = world.controller.explanation(job_id)
            return why is not None and text in " ".join(why.words())

        await eventually(told)

    await is_told("ConfigMap 'settings' does not exist")
    await world.client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}}, namespace=world.namespace)
    await is_told("Secret 'token' does not exist")
    assert ((await world.store.get(job_id)).attempt, await world.pods()) == (0, [])
    await world.client.create(SECRETS, {"metadata": {"name": "token"}}, namespace=world.namespace)
    assert (await world.phase(job_id, Phase.PROCESSING)).attempt == 1


async def test_a_gang_that_a_quota_refuses_waits_whole_and_starts_when_there_is_room(world: World) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    await world.client.create(QUOTAS, quota, namespace=world.namespace)
    patient = Policy(grace_seconds=1.0, backoff_seconds=15.0)
    job_id = await world.submit(shell(SERVE, replicas=3), policy=patient)
    job = await world.until(job_id, lambda job: job.phase is Phase.RESTARTING and not job.holding)
    assert (job.reason, job.failures) == ("QuotaExceeded", 0)
    assert "exceeded quota: small" in job.message
    assert await world.pods() == []
    await world.client.delete(QUOTAS, "small", namespace=world.namespace)
    await world.phase(job_id, Phase.PROCESSING)


async def test_a_gang_that_may_not_grow_for_a_quota_goes_on_as_it_is(world: World) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    await world.client.create(QUOTAS, quota, namespace=world.namespace)
    job_id = await world.submit(shell(SERVE, replicas=1, minimum=1, maximum=2), policy=ONE_TRY)
    await world.phase(job_id, Phase.PROCESSING)
    (before,) = await world.pods()
    await world.scale(job_id, worker=2)
    await world.until(job_id, lambda job: len(job.replicas) == 2)
    (after,) = await world.pods()
    assert after.metadata.uid == before.metadata.uid
    assert (await world.store.get(job_id)).phase is Phase.PROCESSING
    await world.client.delete(QUOTAS, "small", namespace=world.namespace)
    await world.until(job_id, lambda job: all(each.state is ReplicaState.RUNNING for each in job.replicas))
