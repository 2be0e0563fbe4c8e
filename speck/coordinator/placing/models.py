"""The placement models of compositions, from what runs, the inventory and the profiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from speck.binder import Capability
from speck.binder.pool import BinderPool
from speck.coordinator.placing.choices import Choices
from speck.coordinator.placing.request import NO_REQUEST, PlacementRequest
from speck.coordinator.placing.strays import with_strays_fixed
from speck.core.draft import FREE, Draft
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.errors import BinderError, Fault, InvalidInput
from speck.placement.model import Model, Surroundings, model_of
from speck.placement.problem import Load
from speck.placement.profile import Inputs
from speck.placement.sites import SiteTable, site_table
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class Models:
    """Makes the drafts and models of compositions.  Safe to use from several threads.

    The places in ``choices`` count for all other compositions, beside those that the store has.
    """

    deployments: Deployments
    pool: BinderPool
    inventory: Inventory
    choices: Choices = field(default_factory=Choices, init=False)

    def draft(
        self, composition: Composition, inventory: Inventory | None = None, avoid: Collection[str] = ()
    ) -> Draft:
        """The draft of a composition; no place at the addresses in ``avoid`` is kept or offered.

        Everything that is computed from it reads the sites of its own inventory: a site that joins or is
        removed meanwhile is in all of it or in none.  Raises :class:`~speck.errors.InvalidInput` for jobs
        that no site can run.
        """
        inventory = self.inventory.snapshot if inventory is None else inventory
        head = self.deployments.head(composition.name)
        desired = {} if head.deleting else self.deployments.desired(head)
        here = {name: job for name, job in composition.jobs.items() if job.settled and job.movable}
        running = {**{name: job for name, job in desired.items() if job.settled}, **here}
        draft = _with_former_sources(
            Draft.of(composition, inventory, self.pool.registry, running, avoid), running
        )
        if faults := list(_homeless(draft)):
            raise InvalidInput(faults, f"composition {composition.name!r}")
        return draft

    def of(
        self, draft: Draft, inputs: Inputs, request: PlacementRequest = NO_REQUEST, *, hold: bool = False
    ) -> Model:
        """The model of a draft with these profiles; with ``hold``, what has a place stays there."""
        others = self._other_compositions(draft.name)
        # A running job keeps its engine's address out of the draft, hence the inventory's instead.
        jobs = [job for each in (*others, draft.composition) for job in each.jobs.values()]
        table = site_table(draft.inventory, inputs, jobs)
        around = Surroundings(
            table=table,
            inputs=inputs,
            running=frozenset(draft.sites),
            unprofiled=frozenset(self._unprofiled(draft)),
            pinned=frozenset(request.pins),
            constraints={**_permitted(draft, request.forbidden), **request.constraints},
            hold=hold,
            homes_stay=request.homes_stay,
            background=self._background(others, table, inputs, draft.inventory),
        )
        return model_of(draft, around)

    def present(self, composition: Composition, inputs: Inputs, inventory: Inventory | None = None) -> Model:
        """The model of a composition as it runs; no engine is asked.

        Models that are compared have the same ``inventory``; ``None``: that of now.
        """
        return self.of(self.draft(composition, inventory), inputs, hold=True)

    def of_part(
        self,
        composition: Composition,
        inputs: Inputs,
        measured: Inputs,
        others: Sequence[Job],
        inventory: Inventory,
    ) -> Model:
        """The model of a part of a composition with these profiles; its ``others`` are load as measured."""
        draft = Draft.of(composition, inventory, self.pool.registry, {})
        beside = Composition(composition.name, {job.job_name: job for job in others})
        compositions = [*self._other_compositions(composition.name), *([beside] if others else ())]
        jobs = [job for each in (*compositions, composition) for job in each.jobs.values()]
        table = site_table(inventory, measured, jobs)
        load = self._background(compositions, table, measured, inventory)
        return model_of(draft, Surroundings(table=table, inputs=inputs, hold=True, background=load))

    def _other_compositions(self, name: str) -> list[Composition]:
        # Before the store is read: what is accepted in between is found in the one or in the other.
        chosen = self.choices.others(name)
        stored = {
            each.head.name: Composition(each.head.name, each.desired)
            for each in self.deployments.snapshots()
            if each.head.name != name and each.desired
        }
        return list({**stored, **chosen}.values())

    def _background(
        self, others: Sequence[Composition], table: SiteTable, inputs: Inputs, inventory: Inventory
    ) -> Load:
        """The load of the other compositions as they run."""
        total = Load.none(len(table.sites))
        for each in others:
            fixed = with_strays_fixed(each, inventory)
            draft = Draft.of(fixed, inventory, self.pool.registry)
            running = frozenset(each.jobs)
            with suppress(InvalidInput):  # of another inventory; it has no place in this one
                around = Surroundings(table=table, inputs=inputs, running=running, hold=True)
                total = total + model_of(draft, around).load()
        return total

    def _unprofiled(self, draft: Draft) -> Iterator[str]:
        """The running jobs at engines whose binder reports no profile."""
        for name, site in draft.sites.items():
            job = draft.jobs[name]
            with suppress(BinderError):
                engine = self.pool.engine_at(job.engine, draft.candidates[name][site])
                if Capability.PROFILES not in engine.capabilities:
                    yield name


def _permitted(draft: Draft, forbidden: Mapping[str, Collection[str]]) -> dict[str, Sequence[str]]:
    """The sites that remain of each job with forbidden ones; its present site always does."""
    return {
        name: [each for each in draft.candidates[name] if each not in sites or each == draft.sites.get(name)]
        for name, sites in forbidden.items()
        if name in draft.jobs and draft.jobs[name].movable
    }


def _with_former_sources(draft: Draft, running: Mapping[str, Job]) -> Draft:
    """A draft in which jobs whose writers are gone go on reading where they read now."""
    jobs = {
        name: replace(job, source_broker=running[name].source_broker)
        for name, job in draft.jobs.items()
        if job.source_broker == FREE and name not in draft.reads and name in running
    }
    if not jobs:
        return draft
    return replace(draft, composition=replace(draft.composition, jobs={**draft.jobs, **jobs}))


def _homeless(draft: Draft) -> Iterator[Fault]:
    for name, job in draft.jobs.items():
        if job.movable and not draft.candidates[name]:
            reasons = "; ".join(f"{each.site} {each.reason}" for each in draft.refused if each.job == name)
            message = f"no site can run it: {reasons or 'the inventory has none'} (expected other sites)"
            yield Fault(message, job=name, field="sites", value=", ".join(job.sites))
