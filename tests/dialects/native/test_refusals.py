"""Wrong input: the message names file, line, field, what was expected and the nearest valid name."""

import pytest
import yaml

from gangline.dialects import yaml_text
from gangline.dialects.native import job_from_plain, read_job
from gangline.errors import InvalidInputError

HEAD = "metadata: {name: job}\nspec:\n"
ROLE = HEAD + "  roles:\n    worker:\n      command: [x]\n"

CASES = {
    # id: (text, line, field, part of the problem, part of the expectation, suggestion)
    "empty": ("", None, None, "empty", "at least one document", None),
    "only a comment": ("# nothing\n", None, None, "empty", "document", None),
    "broken yaml": ("metadata: {name: a\nspec: [", 2, None, "not valid YAML", None, None),
    "tabs": ("metadata:\n\tname: x\n", 2, None, "not valid YAML", "not tabs", None),
    "a list": ("- a\n", 1, None, "found a list", "a mapping", None),
    "other version": ("apiVersion: gangline.dev/v2\n", 1, "apiVersion", "v2", "gangline.dev/v1", "gangline.dev/v1"),
    "other kind": ("kind: Jobb\n", 1, "kind", "Jobb", "Job", "Job"),
    "no spec": ("metadata: {name: a}\n", 1, "spec", "missing", "a mapping", None),
    "no name": ("metadata: {}\nspec: {command: x}\n", 1, "metadata.name", "missing", "name", None),
    "bad name": ("metadata:\n  name: My_Job\nspec: {command: x}\n", 2, "metadata.name", "My_Job", "lower-case", None),
    "bad tenant": (
        "metadata:\n  name: a\n  tenant: A B\nspec: {command: x}\n",
        3,
        "metadata.tenant",
        "A B",
        "lower",
        None,
    ),
    **{
        f"checkpoints to {to or 'nowhere'}": (
            f"{HEAD}  command: x\n  checkpoints: {{to: '{to}'}}\n",
            4,
            "spec.checkpoints.to",
            "checkpoints",
            "a path from the root, pvc://CLAIM/path or",
            None,
        )
        for to in ("", "here", "s3://", "http://host/x", "model://mnist", "job://mnist/results")
    },
    "an input from nowhere": (
        f"{HEAD}  command: x\n  data: {{inputs: [{{from: '', to: $DATA_DIR}}]}}\n",
        4,
        "spec.data.inputs[0].from",
        "empty",
        "s3://bucket/folder",
        None,
    ),
    "two queues": (
        "metadata: {name: a, queue: red}\nspec:\n  command: x\n  queue: blue\n",
        4,
        "spec.queue",
        "'blue' here and 'red' in metadata.queue",
        "one queue",
        None,
    ),
    "unknown top field": ("specs: {}\n", 1, "specs", "unknown field 'specs'", "spec", "spec"),
    "unknown spec field": (HEAD + "  commnd: x\n", 3, "spec.commnd", "unknown field", "command", "command"),
    "unknown role field": (
        ROLE + "      replica: 3\n",
        6,
        "spec.roles.worker.replica",
        "unknown",
        "replicas",
        "replicas",
    ),
    "unknown policy field": (
        HEAD + "  command: x\n  policy:\n    deadine: 3h\n",
        5,
        "spec.policy.deadine",
        "unknown field",
        "deadline",
        "deadline",
    ),
    "a role cannot place the gang": (
        ROLE + "      placement:\n        apart: rack\n",
        7,
        "spec.roles.worker.placement.apart",
        "whole gang",
        "spec.placement.apart",
        None,
    ),
    "a flag beside a list of levels": (
        HEAD + "  command: x\n  placement:\n    within: [zone, rack]\n    within_required: false\n",
        6,
        "spec.placement.within_required",
        "a list of levels",
        "required in each",
        None,
    ),
    "a level twice": (
        HEAD + "  command: x\n  placement:\n    within: [rack, rack]\n",
        5,
        "spec.placement.within",
        "twice",
        "each level once",
        None,
    ),
    "groups that are not equal": (
        ROLE + "      replicas: 6\n      groups: 4\n",
        6,
        "spec.roles.worker.replicas",
        "4 equal groups",
        "a multiple of 4",
        None,
    ),
    "groups that grow": (
        ROLE + "      replicas: 4\n      groups: 2\n      max: 8\n",
        8,
        "spec.roles.worker.max",
        "does not grow",
        "no max",
        None,
    ),
    "unknown comparison": (
        HEAD + "  command: x\n  placement:\n    node_affinity:\n      - {key: a, operator: Inn}\n",
        6,
        "spec.placement.node_affinity[0].operator",
        "'Inn'",
        "In, NotIn",
        "In",
    ),
    "a comparison with nothing": (
        HEAD + "  command: x\n  placement:\n    node_affinity:\n      - [{key: a, operator: In}]\n",
        6,
        "spec.placement.node_affinity[0][0].values",
        "In does not take []",
        "at least one value",
        None,
    ),
    "no processes": (
        HEAD + "  framework: mpi\n  processes: 0\n  command: x\n",
        4,
        "spec.processes",
        "'0'",
        "from 1 on",
        None,
    ),
    "processes that nobody starts": (
        HEAD + "  processes: 2\n  command: x\n",
        3,
        "spec.processes",
        "no launcher",
        "pytorch or mpi",
        None,
    ),
    "unknown framework": (HEAD + "  framework: pytorh\n", 3, "spec.framework", "'pytorh'", "pytorch", "pytorch"),
    "framework in capitals": (HEAD + "  framework: PyTorch\n", 3, "spec.framework", "PyTorch", "pytorch", "pytorch"),
    "unknown size": (HEAD + "  command: x\n  size: 1-v10\n", 4, "spec.size", "1-v10", "1-v100", "1-v100"),
    "unknown resource": (
        HEAD + "  command: x\n  resources:\n    memry: 1Gi\n",
        5,
        "spec.resources.memry",
        "unknown resource",
        "memory",
        "memory",
    ),
    "given twice": (HEAD + "  command: x\n  command: y\n", 4, "spec.command", "given twice", None, None),
    "boolean in env": (HEAD + "  command: x\n  env:\n    DEBUG: on\n", 5, "spec.env.DEBUG", "boolean", "quotes", None),
    "name with = in env": (
        HEAD + "  command: x\n  env:\n    A=B: c\n",
        5,
        "spec.env.A=B",
        "not a name",
        "without",
        None,
    ),
    "a list for text": (HEAD + "  command: x\n  image: [a]\n", 4, "spec.image", "a list", "text", None),
    "text for a number": (ROLE + "      replicas: two\n", 6, "spec.roles.worker.replicas", "'two'", "whole", None),
    "boolean for a number": (ROLE + "      replicas: yes\n", 6, "spec.roles.worker.replicas", "true", "whole", None),
    "no replicas": (ROLE + "      replicas: 0\n", 6, "spec.roles.worker.replicas", "0 is too small", "1 or more", None),
    "min above replicas": (
        ROLE + "      replicas: 2\n      min: 3\n",
        7,
        "spec.roles.worker.min",
        "min 3 is more than replicas 2",
        "at most 2",
        None,
    ),
    "max below replicas": (
        ROLE + "      replicas: 2\n      max: 1\n",
        7,
        "spec.roles.worker.max",
        "max 1 is less",
        "at least 2",
        None,
    ),
    "port out of range": (ROLE + "      port: 70000\n", 6, "spec.roles.worker.port", "too large", "65535", None),
    "no command": (HEAD + "  image: a\n", 2, "spec.roles", "missing", "command", None),
    "no command in roles": (
        HEAD + "  roles:\n    worker: 2\n",
        4,
        "spec.roles.worker.command",
        "no command",
        "words",
        None,
    ),
    "no roles": (HEAD + "  roles: {}\n", 3, "spec.roles", "no roles", "at least one", None),
    "a nameless role in a list": (
        HEAD + "  roles:\n  - {command: x}\n",
        4,
        "spec.roles[0].name",
        "missing",
        "name",
        None,
    ),
    "a role twice in a list": (
        HEAD + "  roles:\n  - {name: a, command: x}\n  - {name: a, command: x}\n",
        5,
        "spec.roles[1]",
        "given twice",
        "unique",
        None,
    ),
    "bad count in a list": (
        HEAD + "  roles:\n  - name: a\n    command: x\n    replicas: 0\n",
        6,
        "spec.roles[0].replicas",
        "too small",
        "1 or more",
        None,
    ),
    "bad role name": (
        HEAD + "  command: x\n  roles:\n    Worker: 1\n",
        5,
        "spec.roles.Worker",
        "Worker",
        "lower",
        None,
    ),
    "replicas beside roles": (
        ROLE + "  replicas: 3\n",
        6,
        "spec.replicas",
        "beside roles",
        "roles.worker.replicas",
        None,
    ),
    "bad cpu": (HEAD + "  command: x\n  resources: {cpu: lots}\n", 4, "spec.resources.cpu", "'lots'", "500m", None),
    "negative cpu": (
        HEAD + "  command: x\n  resources: {cpu: -1}\n",
        4,
        "spec.resources.cpu",
        "negative",
        "CPUs",
        None,
    ),
    "memory without unit": (
        HEAD + "  command: x\n  resources: {memory: 4}\n",
        4,
        "spec.resources.memory",
        "unit is missing",
        "1Gi",
        None,
    ),
    "gpu too fine": (
        HEAD + "  command: x\n  resources: {gpu: 0.0001}\n",
        4,
        "spec.resources.gpu",
        "finer",
        "0.5",
        None,
    ),
    "part of a device": (
        HEAD + "  command: x\n  resources: {rdma/hca: 0.5}\n",
        4,
        "spec.resources.rdma/hca",
        "whole",
        "whole number",
        None,
    ),
    "infinite": (HEAD + "  command: x\n  resources: {cpu: .inf}\n", 4, "spec.resources.cpu", "inf", "CPUs", None),
    "bad time": (HEAD + "  command: x\n  policy: {ttl: 7 days}\n", 4, "spec.policy.ttl", "'7 days'", "1h30m", None),
    "no attempts": (
        HEAD + "  command: x\n  policy: {max_attempts: 0}\n",
        4,
        "spec.policy.max_attempts",
        "0",
        "1",
        None,
    ),
    "priority too high": (
        "metadata: {name: a, priority: 1001}\nspec: {command: x}",
        1,
        "metadata.priority",
        "1001",
        "1000",
        None,
    ),
    "unknown priority": (
        "metadata: {name: a, priority: hihg}\nspec: {command: x}",
        1,
        "metadata.priority",
        "hihg",
        "high",
        "high",
    ),
    "tenant twice": (
        "metadata: {name: a, tenant: b, namespace: b}\nspec: {command: x}",
        1,
        "metadata.namespace",
        "twice",
        "either",
        None,
    ),
    "half a move": (
        HEAD + "  command: x\n  data:\n    inputs:\n      - {from: a}\n",
        6,
        "spec.data.inputs[0].to",
        "missing",
        "a path",
        None,
    ),
    "bad effect": (
        HEAD + "  command: x\n  placement: {tolerations: [{effect: NoSchedul}]}\n",
        4,
        "spec.placement.tolerations[0].effect",
        "NoSchedul",
        "NoExecute",
        "NoSchedule",
    ),
    "unbalanced command": (HEAD + "  command: python 'x\n", 3, "spec.command", "cannot be split", "quotes", None),
    "number as a name": (HEAD + "  1: x\n", 3, "spec", "field name '1' is not text", "quotes", None),
    "a foreign tag": (HEAD + "  command: !!binary aGk=\n", 3, "spec.command", "binary", "plain YAML", None),
    "an anchor in itself": ("a: &a [*a]\n", 1, "a[0]", "refers to itself", None, None),
    "merging text": (HEAD + "  <<: text\n", 3, "spec", "'<<'", None, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_wrong_input_is_refused_with_its_place_and_a_way_out(
    case: tuple[str, int | None, str | None, str, str | None, str | None],
) -> None:
    text, line, field, problem, expected, suggestion = case
    with pytest.raises(InvalidInputError) as refusal:
        read_job(text, file="job.yaml")
    error = refusal.value
    assert (error.file, error.line, error.field) == ("job.yaml", line, field)
    assert problem in error.problem
    assert (expected or "") in (error.expected or "")
    assert error.suggestion == suggestion
    assert str(error).startswith("job.yaml")


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        ({"env": {"A": True}}, "spec.env.A", "true is a boolean"),
        ({"env": {1: "x"}}, "spec.env", "the field name 1 is not text"),
        ({"image": "a\0b"}, "spec.image", "NUL"),
        ({"command": "a\0b"}, "spec.command", "NUL"),
        ({"policy": {"preemptible": "no"}}, "spec.policy.preemptible", "found the text 'no'"),
        ({"policy": {"ttl": None}, "code": 3}, "spec.code", "found the number 3"),
    ],
)
def test_decoded_data_is_refused_by_the_same_rules_without_lines(
    spec: dict[str, object], field: str, problem: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        job_from_plain({"metadata": {"name": "job"}, "spec": {"command": ["x"], **spec}})
    assert (refusal.value.field, refusal.value.line) == (field, None)
    assert problem in refusal.value.problem


def test_aliases_cannot_blow_a_small_file_up() -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9))
    with pytest.raises(InvalidInputError, match="too large"):
        read_job(f"a0: &a0 [x, x]\n{levels}\n")


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml_text._LOADER], ids=["pure Python", "the fastest here"])
def test_deep_nesting_is_refused_rather_than_crashing(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_LOADER", loader)
    with pytest.raises(InvalidInputError):
        read_job("[" * 20_000)


def test_nesting_that_yaml_itself_can_read_is_refused_rather_than_crashing() -> None:
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        read_job("a: " + "{a: " * 3000 + "1" + "}" * 3000)
