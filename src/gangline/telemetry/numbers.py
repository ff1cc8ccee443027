"""Everything that a service counts, in the registry of prometheus_client (the extra ``metrics``)."""

from collections.abc import Iterable

from gangline import __version__
from gangline.errors import GanglineError
from gangline.model.team.figures import Figures

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def numbers_or_none() -> "Numbers | None":
    """Return a set of counters; None where the extra is not installed."""
    try:
        return Numbers()
    except ImportError:
        return None


class Numbers:
    """Counted as it happens; what belongs to a moment is set when somebody looks (``show``)."""

    def __init__(self) -> None:
        from prometheus_client import (
            CollectorRegistry,
            Counter,
            Gauge,
            Histogram,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        self.content_type = CONTENT_TYPE_PLAIN_0_0_4
        self._written = generate_latest
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"gangline_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"gangline_{name}_seconds", text, labels, registry=registry, buckets=_FAST)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"gangline_{name}", text, labels, registry=registry)

        gauge("build_info", "The version.", "version").labels(__version__).set(1)
        self._requests = counter("requests", "Requests answered.", "method", "operation", "code")
        self._request_seconds = seconds("request", "Time to an answer, streams excepted.", "method", "operation")
        self._under_way = gauge("requests_under_way", "Requests that are being answered, streams included.")
        self._errors = counter("errors", "Requests refused or failed.", "kind")
        self._steps = seconds("cycle", "Time of a step of the controller: news, records and scheduling.")
        self._events = counter("events", "News that the controller heard.", "kind")
        self._store = seconds("store", "Time that the store took.", "operation")
        self._engine = seconds("engine", "Time that the engine took.", "operation")
        self._jobs = gauge("jobs", "Unfinished jobs.", "tenant", "phase")
        self._waiting = gauge("queue_depth", "Jobs that wait for machines.", "queue", "reason")
        self._cpus = gauge("tenant_cpus", "CPUs that a tenant holds.", "tenant")
        self._gpus = gauge("tenant_gpus", "GPUs that a tenant holds.", "tenant")
        self._cpu_capacity = gauge("cpus", "CPUs of all nodes.")
        self._gpu_capacity = gauge("gpus", "GPUs of all nodes.")
        self._nodes = gauge("nodes", "Nodes, by whether they take replicas.", "schedulable")
        self._busy = gauge("gpu_busy_ratio", "How busy a device is.", "node", "device")

    def request_begins(self) -> None:
        """Count a request that is being answered."""
        self._under_way.inc()

    def request_ends(self, method: str, operation: str, code: int, took: float | None) -> None:
        """Count an answer; ``took`` is None for a stream, which lasts as long as its client likes."""
        self._under_way.dec()
        self._requests.labels(method, operation, code).inc()
        if took is not None:
            self._request_seconds.labels(method, operation).observe(took)

    def note_error(self, error: GanglineError | None) -> None:
        """Count a refusal by its class; None is a defect."""
        self._errors.labels("Defect" if error is None else type(error).__name__).inc()

    def note_step(self, took: float) -> None:
        """Count a step of the controller."""
        self._steps.observe(took)

    def note_event(self, kind: str) -> None:
        """Count a piece of news."""
        self._events.labels(kind).inc()

    def note_store(self, operation: str, took: float) -> None:
        """Count something that the store did."""
        self._store.labels(operation).observe(took)

    def note_engine(self, operation: str, took: float) -> None:
        """Count something that the engine did."""
        self._engine.labels(operation).observe(took)

    def show(self, figures: Figures) -> bytes:
        """Return everything as Prometheus reads it; a tenant that has had jobs is shown with zero once it has none."""
        self._set(self._jobs, (((tenant, phase.value), count) for (tenant, phase), count in figures.jobs.items()))
        self._set(self._waiting, figures.waiting.items())
        self._set(self._cpus, (((tenant,), amount) for tenant, amount in figures.cpus.items()))
        self._set(self._gpus, (((tenant,), amount) for tenant, amount in figures.gpus.items()))
        self._set(self._busy, figures.gpu_busy.items())
        self._set(self._nodes, (((str(ready).lower(),), count) for ready, count in figures.nodes.items()))
        self._cpu_capacity.set(figures.cpu_capacity)
        self._gpu_capacity.set(figures.gpu_capacity)
        return bytes(self._written(self._registry))

    def _set(self, gauge: object, values: Iterable[tuple[tuple[str, ...], float]]) -> None:
        known = gauge._metrics  # type: ignore[attr-defined]  # noqa: SLF001  # the library has no way to ask for it
        for child in known.values():
            child.set(0)
        for labels, value in values:
            gauge.labels(*labels).set(value)  # type: ignore[attr-defined]  # a Gauge
