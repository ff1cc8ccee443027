"""Builds programs of other projects that tests and benchmarks run beside Gangline.

They come from pinned Go modules as the cluster's components do, but none of them is part of the cluster: each is built
when somebody first asks for it, into a cache folder of its own. The modules are in ``deploy/upstream``.
"""

import json
import subprocess
from pathlib import Path

from tools.cluster.build import Module, Report, build_module, digest, exclusive, find_go, modules_folder
from tools.cluster.errors import BuildError
from tools.cluster.layout import cache_folder

HELM = Module(folder="helm", programs=("helm",), package_prefix="helm.sh/helm/v3/cmd/", seconds=60)
VOLCANO = Module(
    folder="volcano",
    programs=("scheduler", "controller-manager"),
    package_prefix="volcano.sh/volcano/cmd/",
    seconds=300,
)
TRAINING_OPERATOR = Module(
    folder="training-operator",
    programs=("training-operator.v1",),
    package_prefix="github.com/kubeflow/training-operator/cmd/",
    seconds=120,
)


def ensure_upstream(module: Module, report: Report) -> Path:
    """Return the folder of a module's programs, building them first where they are missing."""
    source = _source(module)
    target = cache_folder() / "upstream" / f"{module.folder}-{digest(source)}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(target.with_suffix(".lock")):
        if target.is_dir():
            return target
        report(f"building {module.folder} once; about {module.seconds} s on two cores, then cached")
        partial = target.with_suffix(".partial")
        partial.mkdir(exist_ok=True)
        build_module(find_go(report), module, source, partial)
        partial.rename(target)
    return target


def upstream_files(module: Module, path: str, report: Report) -> Path:
    """Return where Go keeps the files of ``path``, one of the modules that ours pins, fetching them if need be."""
    command = [str(find_go(report)), "mod", "download", "-json", path]
    answer = subprocess.run(command, cwd=_source(module), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildError(f"the files of {path} cannot be fetched:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}")
    return Path(json.loads(answer.stdout)["Dir"])


def _source(module: Module) -> Path:
    return modules_folder().parent / "upstream" / module.folder
