"""Checkpoints are found among a job's files."""

from gangline.model import Timestamp
from gangline.model.jobs.job_file import JobFile, checkpoints_of


def file(path: str, size: int = 1, at: float = 0.0) -> JobFile:
    return JobFile(path=path, size_bytes=size, changed_at=Timestamp(at))


def test_whole_checkpoints_are_listed_newest_first_and_others_are_not() -> None:
    found = checkpoints_of(
        [
            file("checkpoints/step-000000000002/a", 10),
            file("checkpoints/step-000000000002/deep/b", 5),
            file("checkpoints/step-000000000002/manifest.json", 99, at=7.0),
            file("checkpoints/rank-1/step-000000000010/a", 3),
            file("checkpoints/rank-1/step-000000000010/manifest.json"),
            file("checkpoints/step-000000000011/a"),
            file("checkpoints/.writing-1-host-2/step-000000000012/manifest.json"),
            file("checkpoints/step-000000000013/deep/manifest.json"),
            file("checkpoints/model.pt"),
            file("results/step-000000000014/manifest.json"),
        ]
    )
    assert [(each.step, each.path, each.files, each.size_bytes) for each in found] == [
        (10, "checkpoints/rank-1/step-000000000010", 1, 3),
        (2, "checkpoints/step-000000000002", 2, 15),
    ]
    assert found[1].saved_at == 7.0


def test_no_files_are_no_checkpoints() -> None:
    assert checkpoints_of([]) == ()
