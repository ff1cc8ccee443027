"""What a router is told of a service: which revisions get which part of its requests, and where their replicas are."""

from collections.abc import Iterable
from dataclasses import replace

from gangline.model import DEFAULT_TENANT
from gangline.model.kinds.service import Service
from gangline.model.routing import (
    Backend,
    BackendState,
    Certificate,
    HeaderRule,
    HoldRules,
    RetryRules,
    RevisionRoute,
    ServiceRoute,
    TimeoutRules,
    Token,
)
from gangline.serving.sight import ServiceSight


def route_name(service: Service) -> str:
    """Return what a router calls a service: names are unique within a tenant only."""
    return service.name if service.tenant == DEFAULT_TENANT else f"{service.name}.{service.tenant}"


def route_of(service: Service, sight: ServiceSight) -> ServiceRoute:
    """Return how requests for a service travel now."""
    access, status = service.spec.access, service.status
    numbers = {status.current, *(each.revision for each in status.replicas)}
    if status.rollout is not None:
        numbers.add(status.rollout.revision)
    weights = _weights(service, sight)
    return ServiceRoute(
        name=route_name(service),
        hosts=access.hosts,
        port=access.port,
        tls=Certificate(certificate=access.certificate, key=access.key) if access.certificate else None,
        tokens=tuple(Token(name=name, sha256=digest) for name, digest in sorted(access.tokens.items())),
        revisions=tuple(_revision(service, number, weights, sight) for number in sorted(numbers) if number),
        timeouts=TimeoutRules(request_seconds=access.timeout_seconds),
        retries=RetryRules(repeatable=bool(service.spec.model) if access.repeatable is None else access.repeatable),
        hold=HoldRules(seconds=access.hold_seconds),
    )


def yielding(route: ServiceRoute, others: Iterable[ServiceRoute]) -> tuple[ServiceRoute, str]:
    """Leave host names and ports to the services that have them already, and say which.

    Otherwise whoever comes later, another tenant perhaps, would get the requests of whoever was first.
    """
    names: dict[str, str] = {}
    ports: dict[int, str] = {}
    for other in others:
        names |= {host.lower(): other.name for host in (*other.hosts, f"{other.name}.localhost")}
        ports |= {other.port: other.name} if other.port else {}
    taken = [host for host in route.hosts if host.lower() in names]
    said = [f"{host} is that of service {names[host.lower()]}" for host in taken]
    if route.port in ports:
        said.append(f"port {route.port} is that of service {ports[route.port]}")
        route = replace(route, port=0)
    return replace(route, hosts=tuple(host for host in route.hosts if host not in taken)), "; ".join(said)


def _weights(service: Service, sight: ServiceSight) -> dict[int, float]:
    """The share of each revision. One that is rolled out has none while no replica of it is ready."""
    status, rollout = service.status, service.status.rollout
    if rollout is None:
        return {status.current: 100.0}
    mine, others = _ready(service, rollout.revision, sight), _ready(service, status.current, sight)
    steps = service.spec.rollout.steps
    if not mine:
        share = 0.0
    elif rollout.step >= len(steps):
        least = steps[-1] if steps else 0
        share = max(least, 100.0 * mine / (mine + others)) if others else 100.0
    else:
        counting = rollout.since is not None
        share = float(steps[rollout.step] if counting else steps[rollout.step - 1] if rollout.step else 0)
    return {status.current: 100.0 - share, rollout.revision: share}


def _ready(service: Service, revision: int, sight: ServiceSight) -> int:
    replicas = service.status.replicas
    return sum(each.revision == revision and each.draining_at is None and sight.ready(each.number) for each in replicas)


def _revision(service: Service, number: int, weights: dict[int, float], sight: ServiceSight) -> RevisionRoute:
    rollout, rules = service.status.rollout, service.spec.rollout
    rolled_out = rollout is not None and rollout.revision == number
    name, _, value = rules.header.partition("=")
    backends = []
    for each in service.status.replicas:
        seen = sight.replicas.get(each.number)
        if each.revision != number or seen is None or not seen.address:
            continue
        if each.draining_at is not None:
            backends.append(Backend(address=seen.address, state=BackendState.DRAINING))
        elif seen.ready:
            backends.append(Backend(address=seen.address))
    answers = any(each.state is BackendState.READY for each in backends)
    return RevisionRoute(
        name=str(number),
        weight=weights.get(number, 0.0),
        tag=rules.tag if rolled_out else f"r{number}",
        headers=(HeaderRule(name=name, value=value),) if rolled_out and rules.header and answers else (),
        backends=tuple(backends),
        concurrency=service.spec.access.concurrency,
    )
