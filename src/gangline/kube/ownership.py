"""Whose an object is: the one rule by which everything of a job is told from what only looks like it. Pure.

Labels and names are anybody's to write. What nobody can forge is where an object lies, for that takes rights in that
namespace, and the uid of its owner: a reference from another namespace is not the owner's, whatever it says.
"""

from dataclasses import dataclass

from gangline.kube.objects import Metadata, OwnerReference


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that stands for a job or a sweep, and the namespace it lies in."""

    namespace: str
    reference: OwnerReference


def belongs(metadata: Metadata, owner: Owner) -> bool:
    """Whether an object is its owner's: in the same namespace, and with the owner's uid among its references."""
    return metadata.namespace == owner.namespace and any(
        reference.uid == owner.reference.uid for reference in metadata.owner_references
    )
