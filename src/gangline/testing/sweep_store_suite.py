"""What every store that keeps sweeps must do, as tests; a companion of ``store_suite`` with the same fixture."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gangline.errors import ConflictError, NotFoundError, StaleVersionError
from gangline.model import JobId, Tenant, Timestamp
from gangline.model.sweep import Sweep
from gangline.storage.interface import Store
from gangline.testing.builders import make_job, make_sweep

RED = Tenant("red")


class SweepStoreSuite:
    """Sweeps are kept by name within their tenant and written with a guard."""

    @pytest.fixture
    def store(self) -> Store | AsyncIterator[Store]:
        """Yield a new, empty store and close it afterwards; every subclass says how."""
        raise NotImplementedError

    async def test_a_sweep_is_returned_as_it_was(self, store: Store) -> None:
        """Template, parameters, objective and progress."""
        sweep = make_sweep(begun=3, stopped=True, finished_at=Timestamp(7.5), parallelism=2)
        created = await store.create_sweep(sweep)
        assert created == sweep
        assert await store.sweeps() == (sweep,)
        assert (await store.sweeps())[0].version == created.version

    async def test_a_sweep_name_is_unique_within_its_tenant(self, store: Store) -> None:
        """And so is an id, everywhere."""
        await store.create_sweep(make_sweep(sweep_id="a"))
        with pytest.raises(ConflictError, match="grid"):
            await store.create_sweep(make_sweep(sweep_id="b"))
        await store.create_sweep(make_sweep(sweep_id="c", tenant=RED))
        with pytest.raises(ConflictError, match="'c'"):
            await store.create_sweep(make_sweep("other", sweep_id="c"))

    async def test_sweeps_are_listed_newest_first(self, store: Store) -> None:
        """Of one tenant or of all."""
        for number, name in enumerate(("a", "b", "c")):
            tenant = RED if name == "b" else Tenant("default")
            await store.create_sweep(make_sweep(name, sweep_id=f"id-{name}", at=number, tenant=tenant))
        assert [sweep.name for sweep in await store.sweeps()] == ["c", "b", "a"]
        assert [sweep.name for sweep in await store.sweeps(RED)] == ["b"]

    async def test_a_saved_sweep_moves_its_version_on(self, store: Store) -> None:
        """An old version is refused and changes nothing."""
        sweep = await store.create_sweep(make_sweep())
        moved = await store.save_sweep(replace(sweep, begun=1))
        with pytest.raises(StaleVersionError) as caught:
            await store.save_sweep(replace(sweep, begun=9))
        assert (caught.value.expected, caught.value.found) == (sweep.version, moved.version)
        assert (await store.sweeps())[0].begun == 1

    async def test_of_simultaneous_saves_of_a_sweep_one_wins(self, store: Store) -> None:
        """However they interleave."""
        sweep = await store.create_sweep(make_sweep())
        saves = [store.save_sweep(replace(sweep, begun=number)) for number in range(6)]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        assert sum(isinstance(outcome, Sweep) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, StaleVersionError) for outcome in outcomes) == 5

    async def test_a_removed_sweep_leaves_its_trials_and_frees_its_name(self, store: Store) -> None:
        """Removing twice is no error; saving what is gone is."""
        sweep = await store.create_sweep(make_sweep())
        await store.create(make_job(job_id="sweep-1-0"))
        await store.remove_sweep(sweep.tenant, sweep.name)
        await store.remove_sweep(sweep.tenant, sweep.name)
        assert await store.sweeps() == ()
        assert await store.get(JobId("sweep-1-0"))
        with pytest.raises(NotFoundError, match="grid"):
            await store.save_sweep(sweep)
        await store.create_sweep(make_sweep(sweep_id="sweep-2"))
