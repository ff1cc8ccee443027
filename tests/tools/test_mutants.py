"""Which changes a mutation run makes, and which it leaves alone."""

import pytest

from tools.mutants.__main__ import PACKAGES, accepted
from tools.mutants.operators import mutants
from tools.mutants.running import ROOT, SOURCE, Reach


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("x = a < b", ["(a <= b)"], id="comparison"),
        pytest.param("x = a < b <= c", ["(a <= b <= c)", "(a < b < c)"], id="chained comparison"),
        pytest.param("x = a and not b", ["(a or not b)", "(b)"], id="logic"),
        pytest.param("x = a + b", ["(a - b)"], id="arithmetic"),
        pytest.param("x = 1", ["2"], id="number"),
        pytest.param("x = True", ["False"], id="truth"),
        pytest.param("def f():\n    return x", ["return None"], id="return"),
        pytest.param("def f():\n    return ()", [], id="a return of nothing"),
        pytest.param("if a: pass", ["(not a)"], id="condition"),
        pytest.param("f(a)", ["pass"], id="call"),
        pytest.param("a.b = c", ["pass"], id="assignment to a field"),
        pytest.param("a = c", [], id="assignment to a name"),
        pytest.param("raise E(1)", ["pass"], id="raise, not its arguments"),
        pytest.param("x = min(a)", ["(max(a))"], id="least and greatest"),
        pytest.param("x = sorted(a, key=f)", ["(sorted(a))"], id="sort key"),
        pytest.param(
            "x = sorted(a, key=lambda b: (b, c))",
            ["(sorted(a))", "(sorted(a, key=lambda b: (c,)))", "(sorted(a, key=lambda b: (b,)))"],
            id="parts of a sort key",
        ),
        pytest.param(
            "x = sorted(a, key=f)\ndef f(b):\n    return b, c",
            ["(sorted(a))", "return None", "return (c,)", "return (b,)"],
            id="parts of a function that others sort by",
        ),
        pytest.param("x = replace(a, b=c)", ["(replace(a))"], id="field of a changed value"),
        pytest.param("x = [a for a in b if c]", ["([a for a in b])"], id="filter"),
        pytest.param("log.info(a)", [], id="not a call of a logger"),
        pytest.param("x = 'a' + b", [], id="not texts"),
        pytest.param("x = f'{1 + a}'", [], id="not inside texts"),
        pytest.param("def f(a: X[1] = 2) -> Y[3]: pass", ["3"], id="defaults, not annotations"),
        pytest.param("@d(x=True)\nclass A: pass", [], id="not decorators"),
        pytest.param("class A(Protocol):\n    x = 1", [], id="not protocols"),
    ],
)
def test_the_mutants_of_a_text(source: str, want: list[str]) -> None:
    assert [mutant.after for mutant in mutants(source)] == want


def test_a_mutant_is_the_whole_text_with_one_change_and_knows_its_place() -> None:
    source = "class A:\n    def f(self):\n        if 'ä' and x > 1:  # why\n            return 'é'\n"
    greater = next(mutant for mutant in mutants(source) if mutant.before == "x > 1")
    assert (greater.line, greater.function, greater.after) == (3, "A.f", "(x >= 1)")
    assert greater.source == source.replace("x > 1", "(x >= 1)")


def test_equal_changes_of_one_function_are_told_apart() -> None:
    assert [mutant.after for mutant in mutants("a = 1\nb = 1")] == ["2", "2  # 2"]


def test_tests_of_the_line_come_first_then_those_of_its_file_within_the_budget() -> None:
    reach = Reach({"a.py": {1: ["slow", "quick"], 2: ["other"]}}, {"slow": 3.0, "quick": 1.0, "other": 2.0})
    assert reach.near("a.py", 1, 100) == ["quick", "slow", "other"]
    assert reach.near("a.py", 1, 4) == ["quick", "slow"]
    assert reach.near("a.py", 1, 0) == ["quick"], "one at least"
    assert reach.near("b.py", 1, 100) == ["quick", "other", "slow"], "a file of declarations: any test may notice"


def test_what_is_named_exists() -> None:
    for package, tests in PACKAGES.items():
        assert (SOURCE / package).is_dir()
        assert all((ROOT / test).exists() for test in tests)


def test_every_accepted_survivor_has_a_reason() -> None:
    for (file, _, before, after), reason in accepted().items():
        assert (SOURCE / file).exists()
        assert before != after
        assert len(reason.split()) > 2
