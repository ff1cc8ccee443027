"""Where the code of a job comes from, as its submitter's machine knows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a submission notes beside the digest of the code, so that a result can be traced and repeated."""

    commit: str = ""
    """The commit that was checked out in the directory of the code."""
    dirty: bool = False
    """Whether that directory had changes that are not in the commit."""
    packages: str = ""
    """The digest of the list of installed packages, which the service keeps."""
    rerun_of: str = ""
    """The job that this one repeats."""

    @property
    def described_commit(self) -> str:
        """The commit, and whether there was more."""
        return f"{self.commit} (dirty)" if self.commit and self.dirty else self.commit
