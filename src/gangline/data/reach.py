"""The other end of copies by hand on a cluster: a program of Gangline's image that is run in a pod, over its streams.

    python3 -m gangline.data.reach files ROOT list|read|write PATH       the files of a job
    python3 -m gangline.data.reach models PLACE.json take|keep|forget ARGUMENT

Lists and answers are JSON, files one tar stream (``tars``). Exit code 4 says that there is nothing at a path, 3 that
another try would end the same; the last line on standard error says why.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .job_folders import JobFolder, NoSuchFileError
from .model_files import ModelFiles
from .moving import tell_failure
from .pod_mover import hide, model_files
from .tars import packed, receive, write_tar
from .unpacking import PermanentError

MISSING = 4
"""The exit code by which it says that there is nothing at a path."""


def main() -> None:
    """Do what the arguments say."""
    hide()
    what, where, action, argument = sys.argv[1:5]
    try:
        if what == "files":
            _files(JobFolder(Path(where)), action, argument)
        else:
            _models(model_files(json.loads(Path(where).read_text(encoding="utf-8"))), action, argument)
    except NoSuchFileError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(MISSING)
    except (PermanentError, OSError) as error:
        sys.exit(tell_failure(error))


def _files(job: JobFolder, action: str, path: str) -> None:
    if action == "list":
        json.dump(list(job.listed(path)), sys.stdout)
    elif action == "read":
        write_tar(job.packed(path), sys.stdout.buffer)
    else:
        draft = job.draft(path)
        try:
            json.dump(job.put(path, receive(sys.stdin.buffer, draft)), sys.stdout)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _models(files: ModelFiles, action: str, argument: str) -> None:
    if action == "forget":
        files.forget_all_but(set(filter(None, argument.split(","))), now=time.time())
        return
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "files")
        if action == "take":
            files.take(argument, place)
            write_tar(packed(place), sys.stdout.buffer)
        else:
            json.dump(files.keep(receive(sys.stdin.buffer, place)), sys.stdout)


if __name__ == "__main__":
    main()
