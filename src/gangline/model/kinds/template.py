"""What runs are made from and grouped by: kept pipelines with their versions, and experiments."""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name
from gangline.model.record import NoStatus, Record

_LONGEST_NAME = 40
_LONGEST_TITLE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpec:
    """A pipeline that is kept to be run again; its versions are records of their own."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    display_name: Annotated[str, "What its user calls it."] = ""
    description: Annotated[str, "What it is for."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateVersionSpec:
    """One version of a template."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    template: Annotated[str, "The template that it is a version of."]
    documents_json: Annotated[str, "The documents of a file that the kfp package compiled."]
    display_name: Annotated[str, "What its user calls it."] = ""
    description: Annotated[str, "What is new in it."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        check_name(self.template, "spec.template")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExperimentSpec:
    """A group of runs."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    display_name: Annotated[str, "What its user calls it."] = ""
    description: Annotated[str, "What it is for."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExperimentStatus:
    """Whether an experiment is still of interest."""

    archived: bool = False

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        return "archived" if self.archived else "ready"

    @property
    def settled(self) -> bool:
        """Nothing is ever done for it."""
        return True


Template = Record[TemplateSpec, NoStatus]
TemplateVersion = Record[TemplateVersionSpec, NoStatus]
RunExperiment = Record[RunExperimentSpec, RunExperimentStatus]


def name_for(title: str, field: str) -> str:
    """Return the name of what its user calls this: the same for the same title, and for no other."""
    if not title.strip() or len(title) > _LONGEST_TITLE:
        raise InvalidInputError(
            "the name is empty" if not title.strip() else "the name is too long",
            field=field,
            expected=f"1 to {_LONGEST_TITLE} letters",
        )
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:_LONGEST_NAME].strip("-")
    if words == title:
        return words
    digest = hashlib.sha256(title.encode()).hexdigest()[:6]
    return f"{words}-{digest}" if words else digest
