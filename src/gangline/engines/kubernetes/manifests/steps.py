"""A pipeline's step in its own image: the launcher of one machine becomes a few lines of shell. Pure.

Images of steps need nothing but a shell, ``base64`` and, for outputs of more than a few lines, ``gzip``. What the step
made is reported in the pod's termination message, of which a kubelet carries 4 KiB; ``pipelines.reports`` reads it.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from posixpath import dirname
from shlex import quote
from typing import Any

from gangline.dialects.kubeflow.pod_template import nodes_of
from gangline.engines.kubernetes.manifests.pod import DIRECTORIES, HOME, literal
from gangline.model import JobSpec, RoleSpec
from gangline.model.kinds.pipeline import STEP_VARIABLE
from gangline.pipelines.jobs import LAUNCHER
from gangline.pipelines.reports import DIGEST, PARAMETER, RESULTS_NAME, SAID

MOST_RESULT_BYTES = 4096
_SCRIPT = """\
{prepare}
"$@" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
wait "$child"; code=$?
if kill -0 "$child" 2>/dev/null; then wait "$child"; code=$?; fi
[ "$code" -eq 0 ] || exit "$code"
file() {{ if [ -f "$2" ]; then printf '%s %s\\n' "$1" "$(wc -c <"$2" | tr -d ' ')"; cat "$2"; fi; }}
text() {{ printf '%s %s\\n%s' "$1" "${{#2}}" "$2"; }}
content() {{ printf '%s\\0' "$1"; cat "$2"; }}
digest() {{
  if [ -d "$2" ]; then
    sum=$(cd "$2" && find . -type f | LC_ALL=C sort | while read -r each; do content "$each" "$each"; done | sha256sum)
  elif [ -f "$2" ]; then sum=$(content . "$2" | sha256sum)
  else return 0; fi
  text "$1" "${{sum%% *}}"
}}
custom() {{
  q='"'; said=$(cat {results}/executor_output.json 2>/dev/null) || return 0
  said=${{said#*"${{q}}uri$q: $q$1$q"}}; said=${{said%%"${{q}}uri$q:"*}}
  case $said in *"${{q}}custom_path$q:"*) ;; *) return 0 ;; esac
  said=${{said#*"${{q}}custom_path$q: $q"}}; said=${{said%%"$q"*}}
  if [ -e "$said" ] && [ ! -e "$1" ]; then cp -r "$said" "$1"; fi
}}
if command -v gzip >/dev/null; then
  packed() {{ printf gzip:; gzip -9 | base64; }}
else
  packed() {{ printf plain:; base64; }}
fi
report=$({{ {collect}; }} | packed | tr -d '\\n')
if [ "${{#report}}" -gt {most} ]; then
  echo "the outputs are larger than a pod's end carries ({most} bytes when packed); make them artefacts" >&2
  exit 1
fi
printf %s "$report" >"$GANGLINE_RESULT"
"""


_PLACES = {f"{{{{{variable}}}}}": f"{HOME}/{folder}" for variable, folder in DIRECTORIES.items()}
_RESULTS = f"{HOME}/{DIRECTORIES['RESULT_DIR']}"


def job_on_cluster(spec: JobSpec) -> JobSpec:
    """Return a job of a record as a cluster runs it: on the nodes that its pods allow, and a step in its image."""
    spec = replace(spec, roles=tuple(map(_with_nodes, spec.roles)))
    if STEP_VARIABLE not in spec.env:
        return spec
    order = json.loads(_placed(spec.env[STEP_VARIABLE]))
    placed = spec.with_texts(_placed)
    roles = tuple(_role(role, order, leads=role.name == order.get("lead", role.name)) for role in placed.roles)
    return replace(placed, roles=roles, env={**placed.env, STEP_VARIABLE: spec.env[STEP_VARIABLE]})


def _with_nodes(role: RoleSpec) -> RoleSpec:
    if role.pod_template_json is None or role.placement is not None:
        return role
    return replace(role, placement=nodes_of(json.loads(role.pod_template_json)))


def _placed(text: str) -> str:
    for token, folder in _PLACES.items():
        text = text.replace(token, folder)
    return text


def _role(role: RoleSpec, order: Mapping[str, Any], *, leads: bool) -> RoleSpec:
    """Run a role's own command, and let the lead report."""
    words = role.command[len(LAUNCHER) :] if role.command[: len(LAUNCHER)] == LAUNCHER else role.command
    wrapper = ("sh", "-c", script_of(order), "step") if leads else ()
    template = json.loads(role.pod_template_json or "{}")
    containers = (template.get("spec") or {}).get("containers") or []
    if containers and wrapper and "command" in containers[0]:
        own = [*containers[0].pop("command"), *containers[0].pop("args", ())]
        containers[0]["command"] = [*map(literal, wrapper), *own]
    return replace(
        role,
        command=(*wrapper, *words),
        pod_template_json=json.dumps(template) if role.pod_template_json is not None else None,
    )


def script_of(order: Mapping[str, Any]) -> str:
    """Write the shell that runs the command of a step, which follows as its arguments, and reports what it made."""
    artifacts = [each["uri"] for each in order["artifacts"].values()]
    places = {*map(dirname, (*order["parameters"].values(), *artifacts, *order.get("inputs", {}))), _RESULTS}
    prepare = [f"mkdir -p {' '.join(map(quote, sorted(places)))}"]
    prepare += [f"printf %s {quote(text)} >{quote(place)}" for place, text in order.get("inputs", {}).items()]
    collect = [f"text {RESULTS_NAME} {_RESULTS}"]
    collect += [
        f"if [ -e {quote(left)} ]; then mv {quote(left)} {quote(place)}; fi"
        for place, left in order.get("left_at", {}).items()
    ]
    collect.append(f"file {SAID} {_RESULTS}/executor_output.json")
    collect += [f"file {quote(PARAMETER + name)} {quote(place)}" for name, place in order["parameters"].items()]
    collect += [f"custom {quote(place)}" for place in artifacts]
    collect += [f"digest {quote(DIGEST + place)} {quote(place)}" for place in artifacts]
    return _SCRIPT.format(
        prepare="\n".join(prepare), collect="; ".join(collect), most=MOST_RESULT_BYTES, results=_RESULTS
    )
