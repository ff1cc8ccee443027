"""Why the API server or a kubelet refused a gang, as a reason a user can act on. Pure."""

from dataclasses import dataclass

from gangline.errors import EngineError
from gangline.kube import ApiError, BadRequestError, ForbiddenError, InvalidError, NotFoundError

_DENIALS = (("admission webhook", "denied the request"), ("ValidatingAdmissionPolicy", "denied request"))
"""How the API server words that a rule of the cluster's administrator refused; the status alone does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refusal. ``permanent``: the same request would be refused again; ``blameless``: others are in the way."""

    reason: str
    message: str
    permanent: bool
    blameless: bool = False


class RefusedError(EngineError):
    """The cluster will not have this gang."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.reason}: {refusal.message}")


def refusal_of(error: ApiError) -> Refusal | None:
    """Say why an object was refused; None where the server only asks for patience and the order is given again."""
    text = error.message
    if any(all(words in text for words in denial) for denial in _DENIALS):
        return Refusal(reason="AdmissionDenied", message=text, permanent=True)
    if isinstance(error, InvalidError | BadRequestError):
        return Refusal(reason="InvalidObject", message=text, permanent=True)
    if isinstance(error, NotFoundError):
        return Refusal(reason="NamespaceNotFound", message=text, permanent=True)
    if isinstance(error, ForbiddenError):
        return _forbidden(text)
    return None


def name_taken(kind: str, name: str, whose: str) -> Refusal:
    """Say that an object of the gang cannot be made because its name is taken."""
    return Refusal(
        reason=f"{kind}NameTaken", message=f"the name {name} of a {kind} belongs to {whose}", permanent=False
    )


def _forbidden(text: str) -> Refusal:
    if "exceeded quota" in text:
        return Refusal(reason="QuotaExceeded", message=text, permanent=False, blameless=True)
    if "violates PodSecurity" in text:
        return Refusal(reason="PodSecurityViolation", message=text, permanent=True)
    if "is being terminated" in text:
        return Refusal(reason="NamespaceTerminating", message=text, permanent=True)
    return Refusal(reason="Forbidden", message=text, permanent=True)


HOPELESS_WAITS = {
    "ImagePullBackOff": "ImageUnavailable",
    "ErrImageNeverPull": "ImageUnavailable",
    "InvalidImageName": "ImageUnavailable",
    "ImageInspectError": "ImageUnavailable",
    "CreateContainerConfigError": "ContainerConfigError",
    "CreateContainerError": "ContainerCreateError",
    "RunContainerError": "ContainerCreateError",
}
"""Why a container waits that will not start by itself soon, and what the job is told. ``ErrImagePull`` is not among
them: it is the first failure, and one dropped connection should not end a job."""

NODE_REFUSALS = frozenset(
    {"NodeAffinity", "NodeName", "NodePorts", "UnexpectedAdmissionError", "Preempting", "TopologyAffinityError"}
)
"""With ``OutOf...``: what a kubelet says when the place it was promised is no longer there."""


_PASSING = frozenset({"NodePorts", "UnexpectedAdmissionError", "TopologyAffinityError"})
"""Those of them that a pod which is still going may be the cause of: it has the port or the device."""


def is_passing_refusal(reason: str) -> bool:
    """Whether a kubelet may have turned the pod away only because it had not released yet what another pod held."""
    return reason.startswith("OutOf") or reason in _PASSING


def is_node_refusal(reason: str) -> bool:
    """Whether a kubelet turned the pod away because its place was taken meanwhile."""
    return reason.startswith("OutOf") or reason in NODE_REFUSALS
