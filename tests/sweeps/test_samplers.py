"""Samplers: repeatable, within the space, the same after a restart, and the same as Optuna alone."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.util import find_spec

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import qmc

from gangline.errors import InvalidInputError
from gangline.model import Timestamp
from gangline.model.kinds.sweep import Budget, Goal, KnownTrial, Objective, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.search_space import check_values
from gangline.sweeps import Outcome, Sampler, Search, Tried, optuna_samplers, sampler_named, sampler_names, samplers
from gangline.sweeps.optuna_samplers import OptunaSampler
from gangline.sweeps.samplers import OPTUNA_SAMPLERS
from gangline.sweeps.sobol import MOST_DIMENSIONS, sobol_point
from gangline.testing.builders import make_spec

SPACE = (
    Parameter("rate", range=Range(low=1e-4, high=1.0, log=True)),
    Parameter("units", range=Range(low=16, high=128, step=16, whole=True)),
    Parameter("optimizer", ("adam", "sgd")),
    Parameter("momentum", range=Range(low=0.0, high=0.9, step=0.1), when=(("optimizer", ("sgd",)),)),
    Parameter("seed", ("7",)),
)
FLOATS = (
    Parameter("x", range=Range(low=-5.0, high=5.0)),
    Parameter("y", range=Range(low=-5.0, high=5.0)),
)
LOSS = Objective("loss", Goal.MINIMIZE)
SIZE = Objective("size", Goal.MAXIMIZE)


def spec_of(sampler: str, parameters: tuple[Parameter, ...] = SPACE, **fields: object) -> SweepSpec:
    made: dict[str, object] = {"objective": LOSS, "budget": Budget(trials=100), "seed": 3, **fields}
    return SweepSpec(name="search", template=make_spec(), parameters=parameters, sampler=sampler, **made)  # type: ignore[arg-type]


def loss_of(values: Mapping[str, str]) -> tuple[float, ...]:
    if "x" in values:
        x, y = float(values["x"]), float(values["y"])
        return ((x - 1) ** 2 + (y + 2) ** 2,)
    return (abs(float(values["rate"]) - 0.01) + int(values["units"]) / 1000,)


def both_of(values: Mapping[str, str]) -> tuple[float, ...]:
    return (*loss_of(values), float(values.get("x", 0)) ** 2)


def searched(
    spec: SweepSpec,
    count: int,
    sampler: Callable[[int], Sampler],
    judge: Callable[[Mapping[str, str]], tuple[float, ...]] = loss_of,
) -> list[Mapping[str, str]]:
    """Run a search one trial at a time; ``sampler`` says whom the n-th question goes to."""
    tried: tuple[Tried, ...] = ()
    for number in range(count):
        search = Search(id=RecordId("s"), spec=spec, seed=spec.seed or 0, tried=tried)
        (values,) = sampler(number).propose(search, 1)
        failed = number % 7 == 5
        trial = Tried(
            number=number,
            values=values,
            outcome=Outcome.FAILED if failed else Outcome.COMPLETED,
            results=() if failed else judge(values),
            began_at=Timestamp(10.0 * number),
            ended_at=Timestamp(10.0 * number + 5),
        )
        tried = (*tried, trial)
    return [trial.values for trial in tried]


NO_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch; tests/frameworks runs it")
GP = pytest.param("gp", marks=NO_TORCH)
OPTUNA = ["tpe", "cma-es", "nsga-ii", "qmc", "RandomSampler"]


@pytest.mark.parametrize("name", ["random", "sobol", *OPTUNA])
def test_every_proposal_is_within_the_space(name: str) -> None:
    for values in searched(spec_of(name), 20, lambda _: sampler_named(name)):
        check_values(SPACE, values)
        assert ("momentum" in values) == (values["optimizer"] == "sgd")
        assert values["seed"] == "7"


@given(st.integers(0, 2**32 - 1), st.integers(0, 200), st.integers(1, 8))
def test_random_and_sobol_say_the_same_however_they_are_asked(seed: int, begun: int, most: int) -> None:
    """One at a time or several at once, today or after a restart."""
    for name in ("random", "sobol"):
        spec = spec_of(name)
        tried = tuple(Tried(number=n, values={}, outcome=Outcome.RUNNING) for n in range(begun + most))
        together = sampler_named(name).propose(
            Search(id=RecordId("s"), spec=spec, seed=seed, tried=tried[:begun]), most
        )
        apart = [
            sampler_named(name).propose(Search(id=RecordId("s"), spec=spec, seed=seed, tried=tried[: begun + n]), 1)[0]
            for n in range(most)
        ]
        assert list(together) == apart


@pytest.mark.parametrize("name", ["random", "sobol", *OPTUNA])
def test_another_seed_gives_another_search(name: str) -> None:
    one = searched(spec_of(name, FLOATS), 5, lambda _: sampler_named(name))
    other = searched(spec_of(name, FLOATS, seed=4), 5, lambda _: sampler_named(name))
    assert one != other


@pytest.mark.parametrize("dimensions", [1, 2, 7, MOST_DIMENSIONS])
def test_the_sobol_sequence_is_that_of_scipy(dimensions: int) -> None:
    want = qmc.Sobol(dimensions, scramble=False, bits=32).random(256)
    assert [sobol_point(index, [0] * dimensions) for index in range(256)] == want.tolist()


def test_sobol_refuses_more_parameters_than_it_has_dimensions() -> None:
    many = tuple(Parameter(f"p{n}", ("1", "2")) for n in range(MOST_DIMENSIONS + 1))
    with pytest.raises(InvalidInputError, match="22 parameters; expected at most 21"):
        sampler_named("sobol").check(spec_of("sobol", many))


@pytest.mark.parametrize("killed_at", [1, 11, 24])
@pytest.mark.parametrize("name", [*OPTUNA, GP])
def test_a_restart_changes_nothing(name: str, killed_at: int) -> None:
    trials = 14 if name == "gp" else 30  # it is slow, and models what it knows from the eleventh on
    class_name = OPTUNA_SAMPLERS.get(name, name)
    before, after = OptunaSampler(class_name), OptunaSampler(class_name)
    want = searched(spec_of(name), trials, lambda _: before)
    fresh = OptunaSampler(class_name)
    assert searched(spec_of(name), trials, lambda number: after if number < killed_at else fresh) == want


def test_a_restart_changes_nothing_with_several_objectives() -> None:
    spec = spec_of("nsga-ii", FLOATS, other_objectives=(SIZE,), settings={"population_size": 5})
    before = OptunaSampler("NSGAIISampler")
    want = searched(spec, 30, lambda _: before, both_of)
    assert searched(spec, 30, lambda _: OptunaSampler("NSGAIISampler"), both_of) == want


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", ["tpe", "cma-es", "nsga-ii", "nsga-iii", "qmc", GP])
def test_one_at_a_time_a_search_tries_what_optuna_alone_tries(name: str) -> None:
    study = optuna.create_study(sampler=getattr(optuna.samplers, OPTUNA_SAMPLERS[name])(seed=3), direction="minimize")
    want, trials = [], 16 if name == "gp" else 40
    for _ in range(trials):
        trial = study.ask()
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
        want.append((x, y))
        study.tell(trial, (x - 1) ** 2 + (y + 2) ** 2)
    kept: tuple[Tried, ...] = ()
    sampler = OptunaSampler(OPTUNA_SAMPLERS[name])
    for number in range(trials):
        (values,) = sampler.propose(Search(id=RecordId("s"), spec=spec_of(name, FLOATS), seed=3, tried=kept), 1)
        trial_ = Tried(
            number=number, values=values, outcome=Outcome.COMPLETED, results=loss_of(values), began_at=Timestamp(number)
        )
        kept = (*kept, replace(trial_, ended_at=Timestamp(number + 0.5)))
    assert [(float(each.values["x"]), float(each.values["y"])) for each in kept] == want


def test_the_same_question_has_the_same_answer_until_the_trial_begins() -> None:
    sampler = OptunaSampler("TPESampler")
    search = Search(id=RecordId("s"), spec=spec_of("tpe"), seed=3)
    first = sampler.propose(search, 3)
    assert sampler.propose(search, 2) == first[:2]
    begun = Tried(number=0, values=first[0], outcome=Outcome.RUNNING)
    assert sampler.propose(replace(search, tried=(begun,)), 2) == first[1:]


def test_a_trial_that_lost_its_job_is_forgotten_without_a_fault() -> None:
    sampler = OptunaSampler("TPESampler")
    search = Search(id=RecordId("s"), spec=spec_of("tpe"), seed=3)
    (values,) = sampler.propose(search, 1)
    done = Tried(number=0, values=values, outcome=Outcome.COMPLETED, results=(1.0,))
    sampler.propose(replace(search, tried=(done,)), 1)
    gone = Tried(number=0, values={}, outcome=Outcome.FAILED)
    (after,) = sampler.propose(replace(search, tried=(gone,)), 1)
    check_values(SPACE, after)


def test_what_was_tried_before_and_what_is_added_by_hand_is_learnt() -> None:
    known = tuple(
        KnownTrial(values={"x": repr(1 + n / 100), "y": "-2.0"}, results={"loss": n / 10_000}) for n in range(12)
    )
    sampler = OptunaSampler("TPESampler")
    warm = searched(spec_of("tpe", FLOATS, known=known), 5, lambda _: sampler)
    cold = OptunaSampler("TPESampler")
    assert warm != searched(spec_of("tpe", FLOATS), 5, lambda _: cold)
    added = tuple(
        Tried(number=n, values=each.values, outcome=Outcome.COMPLETED, results=(each.results["loss"],), proposed=False)
        for n, each in enumerate(known)
    )
    search = Search(id=RecordId("t"), spec=spec_of("tpe", FLOATS), seed=3, tried=added)
    assert sampler.propose(search, 1) == warm[:1]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(spec_of("tpe", objective=None), "the sampler tpe learns from results", id="no objective"),
        pytest.param(spec_of("tpe", settings={"speed": 3}), "speed", id="unknown setting"),
        pytest.param(spec_of("tpe", settings={"n_startup_trials": "many"}), "Optuna refuses it", id="no number"),
        pytest.param(spec_of("nsga-ii", settings={"population_size": -3}), "population_size", id="impossible setting"),
        pytest.param(spec_of("cma-es", other_objectives=(SIZE,)), "refuses it.*multi-objective", id="objectives"),
        pytest.param(spec_of("GridSampler"), "GridSampler is not for sweeps; expected use grid", id="a grid"),
        pytest.param(spec_of("NoSampler"), "Optuna has no NoSampler", id="no such class"),
    ],
)
def test_what_a_sampler_cannot_search_is_refused(spec: SweepSpec, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        sampler_named(spec.sampler).check(spec)


def test_an_unknown_sampler_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'tpee' is not known; expected one of grid, random, sobol, tpe.*did you mean 'tpe'"
    ):
        sampler_named("tpee")


@pytest.mark.parametrize(
    ("sampler", "package"), [("gp", "torch"), ("gp", "scipy"), ("qmc", "scipy"), ("cma-es", "cmaes")]
)
def test_a_package_that_is_needed_later_is_missed_at_once(
    monkeypatch: pytest.MonkeyPatch, sampler: str, package: str
) -> None:
    """The first trials are chosen at random: the lack of it would end the search after ten."""
    monkeypatch.setattr(optuna_samplers, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(InvalidInputError, match=f"{sampler} needs what is not installed.*{package}"):
        sampler_named(sampler).check(spec_of(sampler))


def test_without_optuna_its_samplers_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    samplers._optuna.cache_clear()
    monkeypatch.setitem(sys.modules, "gangline.sweeps.optuna_samplers", None)
    with pytest.raises(InvalidInputError, match=r"not installed.*pip install 'gangline\[tune\]'"):
        sampler_named("tpe")


def test_the_core_does_not_import_optuna() -> None:
    """The base installation has none, and starting it costs a third of a second."""
    import subprocess

    code = "import gangline.kinds.sweep, sys; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Middle:
    """A sampler of somebody's own."""

    def check(self, spec: SweepSpec) -> None: ...

    def propose(self, search: Search, most: int) -> list[Mapping[str, str]]:
        return [{each.name: each.at(0.5) for each in search.spec.parameters}] if not search.tried else []


MIDDLE = Middle()


def test_a_sampler_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="middle", value=f"{__name__}:MIDDLE", group="gangline.samplers")
    monkeypatch.setattr(samplers, "_entry_points", lambda: {"middle": point})
    assert "middle" in sampler_names()
    search = Search(id=RecordId("s"), spec=spec_of("middle", FLOATS), seed=0)
    assert sampler_named("middle").propose(search, 1) == [{"x": "0.0", "y": "0.0"}]
