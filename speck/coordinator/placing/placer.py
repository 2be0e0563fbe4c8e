"""The placer: chooses sites for jobs and homes for topics, from what runs, the profiles and the inventory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from speck.binder.pool import BinderPool
from speck.coordinator.placing.changed_inputs import changed_inputs
from speck.coordinator.placing.models import Models
from speck.coordinator.placing.pools import EnginePools
from speck.coordinator.placing.portability import Portable, portable, reachable
from speck.coordinator.placing.request import NO_REQUEST, PlacementRequest, check_request
from speck.coordinator.placing.strays import with_places_of, with_strays_fixed
from speck.core.change import PLACE_ALL, PLACE_NEW, PLACE_NONE
from speck.core.draft import Draft
from speck.core.inventory import Inventory
from speck.core.job import Composition, changed_fields
from speck.core.plan import Plan, Start
from speck.errors import Conflict, Fault, InvalidInput, Overloaded
from speck.placement.advice import Advice, Comparison, advise, compare
from speck.placement.explain import Explanation, verdicts
from speck.placement.model import Model
from speck.placement.policies import Budget, policies, policy
from speck.placement.profile import Inputs
from speck.schema.fault_report import listed
from speck.store.deployments import Deployments

SECONDS = 10.0  # of processor time for one placement, and of waiting for the one before


@dataclass(frozen=True)
class Assignment:
    """A composition with a place for everything, and the choice of places if one was made."""

    composition: Composition
    model: Model | None = None
    advice: Advice | None = None


@dataclass(frozen=True)
class PlacementResult:
    """A composition with a place for everything, and how it came about.

    ``comparisons`` are those of all policies, if asked for; ``inputs`` the profiles of that moment;
    ``shared`` the indices of jobs whose state all of their sites can read where it is.
    """

    composition: Composition
    base_revision: int
    model: Model
    advice: Advice
    policy: str
    verdicts: Sequence[Explanation]
    comparisons: Sequence[Comparison]
    inputs: Inputs
    shared: Collection[int] = ()


@dataclass(frozen=True)
class Placer:
    """Places compositions; nothing is changed in here.

    ``inputs`` gives the profiles.  ``state_limit`` (bytes) is that of moves.  ``pools`` choose engines at
    sites that have several of a kind.  Safe to use from several threads: one placement is computed at a time.
    """

    deployments: Deployments
    pool: BinderPool
    inventory: Inventory
    inputs: Callable[[], Inputs]
    state_limit: int
    pools: EnginePools
    models: Models
    _one: threading.Lock = field(default_factory=threading.Lock, init=False)

    # --- applying

    @contextmanager
    def reservation(self, name: str) -> Iterator[None]:
        """Until the block ends, places that a composition gets with ``reserve`` count for all others.

        So what is applied is not placed by figures that another apply has used up before it was accepted.
        """
        try:
            yield
        finally:
            self.models.choices.forget(name)
            self.pools.release(name)

    def reserve(self, composition: Composition, *, running: bool = False) -> None:
        """Reserve the places that a composition was given before; ``running``: it runs there already.

        Raises :class:`~speck.errors.StalePlan` if an engine of a pool has no room for a job by now.
        """
        self.models.choices.note(composition)
        self.pools.reserve(composition, running=running)

    def assign(
        self,
        composition: Composition,
        place: str = PLACE_NEW,
        *,
        reserve: bool = False,
        left_behind: Collection[str] = (),
    ) -> Assignment:
        """A composition with a place for each job and topic.

        Movable jobs that run, and their topics, stay where they are if their ``sites``, ``with`` and
        ``apart`` still allow it; others that run are placed where their state can come.
        ``place`` is ``new`` (only what has no place yet is placed), ``all`` (everything anew) or ``none``.
        ``reserve`` is for :meth:`reservation`; no place at the addresses ``left_behind`` is kept or chosen,
        unless ``place`` is ``none``, and the state there is given up.
        Raises :class:`~speck.errors.InvalidInput` for a job without a site, and
        :class:`~speck.errors.Overloaded`.
        """
        if place == PLACE_ALL and any(job.movable for job in composition.jobs.values()):
            # A job at a lost engine cannot drain its source, so that no other topic moves with it.
            request = PlacementRequest(homes_stay=bool(left_behind))
            placed = self.place(composition, request, reserve=reserve, left_behind=left_behind)
            return Assignment(placed.composition, placed.model, placed.advice)
        if all(job.settled for job in composition.jobs.values()):
            return Assignment(self._with_engines(composition, reserve, left_behind))
        draft = self.models.draft(composition, avoid=left_behind if place != PLACE_NONE else ())
        sites, homes = dict(draft.sites), dict(draft.homes)
        missing = [name for name, job in draft.jobs.items() if job.movable and name not in sites]
        if missing and place == PLACE_NONE:
            refuse_unplaced(replace(composition, jobs={name: draft.jobs[name] for name in missing}))
        if not missing and homes.keys() == draft.channels.keys():
            return Assignment(self._with_engines(draft.settled(sites, homes), reserve, left_behind))
        draft = self._portable(reachable(draft, self.pool, self.pools), missing, left_behind).draft
        with self.exclusive():
            model, advice = self._advised(draft)
            settled = self._placed(draft, model, advice, reserve)
        assigned = self.pools.assign(settled, reserve=reserve, left_behind=left_behind)
        return Assignment(assigned, model, advice)

    def _portable(self, draft: Draft, names: Collection[str], left_behind: Collection[str] = ()) -> Portable:
        """A draft with only those candidates of these jobs that their state can come to.

        Raises :class:`~speck.errors.InvalidInput` for a job without any.
        """
        snapshot = self.deployments.snapshot(self.deployments.head(draft.name))
        able = portable(draft, snapshot, self.pool, self.state_limit, names, left_behind)
        if faults := [_unportable(name, able.draft) for name in names if not able.draft.candidates[name]]:
            raise InvalidInput(faults, f"composition {draft.name!r}")
        return able

    def _with_engines(
        self, composition: Composition, reserve: bool, left_behind: Collection[str]
    ) -> Composition:
        """A composition with the sites that it has: those of its file, of a step, a pin or a rollback."""
        if reserve:
            self.models.choices.note(composition)
        return self.pools.assign(composition, reserve=reserve, left_behind=left_behind)

    def _advised(self, draft: Draft, request: PlacementRequest = NO_REQUEST) -> tuple[Model, Advice]:
        """The choice of places by a composition's own policy; what has a place stays there."""
        model = self.models.of(draft, self.inputs(), request, hold=True)
        return model, advise(model, policy(draft.options.policy), _budget())

    def _placed(self, draft: Draft, model: Model, advice: Advice, reserve: bool) -> Composition:
        """The composition of a draft with the sites and homes of an advice."""
        settled = draft.settled(model.sites(advice.placement), model.homes(advice.placement))
        if reserve:  # while no other placement is computed
            self.models.choices.note(settled)
        return settled

    def pinned(self, composition: Composition, name: str, pin: bool, site: str = "") -> Composition:
        """A composition with one of its jobs pinned or not, moved to ``site`` before if that is given."""
        job = composition.jobs.get(name)
        if job is None or not job.movable:
            message = "its site is fixed (expected a job with 'site: any' or 'sites: [...]')"
            raise InvalidInput([Fault(message, job=name, field="pin")], f"composition {composition.name!r}")
        if site:
            free = replace(composition, jobs={**composition.jobs, name: replace(job, pin=False)})
            inventory = self.inventory.snapshot
            draft = self.models.draft(with_strays_fixed(free, inventory, but=name), inventory)
            group = next((each for each in draft.groups if name in each), (name,))
            request = PlacementRequest(constraints=dict.fromkeys(group, (site,)))
            check_request(draft, request)
            self._portable(_going(draft, group, site), group)
            with self.exclusive():
                model, advice = self._advised(draft, request)
                placed = self._placed(draft, model, advice, reserve=False)
            composition = self.pools.assign(with_places_of(free, placed))
        jobs = {**composition.jobs, name: replace(composition.jobs[name], pin=pin)}
        return replace(composition, jobs=jobs)

    # --- proposing

    def place(
        self,
        composition: Composition,
        request: PlacementRequest,
        *,
        reserve: bool = False,
        left_behind: Collection[str] = (),
    ) -> PlacementResult:
        """Place all movable jobs of a composition again, as requested.

        ``reserve`` is for :meth:`reservation`, ``left_behind`` as of :meth:`assign`.  Raises
        :class:`~speck.errors.InvalidInput` for wrong names, for a job without a site, and for a policy
        without an answer.
        """
        if not composition.jobs:
            raise InvalidInput([Fault("the composition has no jobs to place", field="jobs")], "placement")
        chosen = policy(
            request.policy or (composition.placement.policy if composition.placement else "speck")
        )
        draft = self.models.draft(composition, avoid=left_behind)
        check_request(draft, request)
        head = self.deployments.head(composition.name)
        movable = [name for name, job in draft.jobs.items() if job.movable]
        able = self._portable(reachable(draft, self.pool, self.pools), movable, left_behind)
        with self.exclusive():
            inputs = self.inputs()
            model = self.models.of(able.draft, inputs, request)
            shared = [model.number[name] for name in able.shared]
            budget = _budget()
            advice = advise(model, chosen, budget, shared)
            asked = [model.number[name] for name in request.explain]
            before = model.before(advice.placement) if any(draft.sites) else None
            why = verdicts(model.problem, before, advice.placement, model.fixed, asked)
            rows = compare(model, list(policies().values()), budget) if request.compare else []
            settled = self._placed(draft, model, advice, reserve)
        settled = self.pools.assign(settled, reserve=reserve, left_behind=left_behind)
        return PlacementResult(settled, head.revision, model, advice, chosen.name, why, rows, inputs, shared)

    def moved(self, composition: Composition, jobs: Collection[str], site: str) -> Composition:
        """A composition that runs, with some of its movable jobs at another site, and nothing else changed.

        Raises :class:`~speck.errors.InvalidInput` for a job that may not run there, and
        :class:`~speck.errors.Conflict` if a topic would move with it.
        """
        inventory = self.inventory.snapshot
        fixed = with_strays_fixed(composition, inventory)
        draft = self.models.draft(fixed, inventory)
        found = draft.settled({**draft.sites, **dict.fromkeys(jobs, site)}, draft.homes)
        for name, job in found.jobs.items():
            changed = {each.field for each in changed_fields(fixed.jobs[name], job)}
            if changed - ({"site", "spe_address"} if name in jobs else set()):
                raise Conflict(
                    f"job {name!r}: {', '.join(sorted(changed))} would change (expected a move alone)"
                )
        return self.pools.assign(with_places_of(composition, found))

    def changed_since(self, placed: PlacementResult) -> list[str]:
        """The inputs of an earlier placement that have changed since, in words: sites, and profiles."""
        draft = replace(placed.model.draft, inventory=self.inventory.snapshot)
        names = {site for sites in draft.candidates.values() for site in sites} | {*draft.homes.values()}
        if gone := sorted(names - draft.inventory.sites.keys()):
            return [f"site {name!r} is no longer in the inventory" for name in gone]
        return list(changed_inputs(placed.model, self.models.of(draft, self.inputs())))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Compute one placement at a time.  Raises :class:`~speck.errors.Overloaded`."""
        if not self._one.acquire(timeout=SECONDS):
            raise Overloaded("another placement is being computed (retry when it has finished)")
        try:
            yield
        finally:
            self._one.release()


def _budget() -> Budget:
    return Budget(SECONDS, clock=time.thread_time)


def refuse_unplaced(composition: Composition) -> None:
    """Raise :class:`InvalidInput` when a job has no site yet, or a topic of it no home."""
    faults = [
        Fault(
            f"has no site yet among {listed(job.sites)} (expected a site to be chosen before planning; "
            "to choose it yourself, write 'site: NAME')",
            job=name,
            field="sites",
            value=", ".join(job.sites),
        )
        for name, job in composition.jobs.items()
        if not job.settled
    ]
    if faults:
        raise InvalidInput(faults, f"composition {composition.name!r}")


def place_notes(plan: Plan) -> dict[str, str]:
    """The sites chosen for jobs that a plan starts, by job name."""
    started = (each.job for each in plan.actions if isinstance(each, Start) and each.job.movable)
    return {job.job_name: f"at site {job.site}, chosen among {', '.join(job.sites)}" for job in started}


def _unportable(name: str, draft: Draft) -> Fault:
    reasons = "; ".join(f"{each.site}: {each.reason}" for each in draft.refused if each.job == name)
    message = (
        f"cannot be moved with its state to any site that it may use ({reasons}; expected another site, "
        "storage for state that both sites can access, or 'upgrade: stateless')"
    )
    return Fault(message, job=name, field="sites", value=", ".join(draft.jobs[name].sites))


def _going(draft: Draft, group: Collection[str], site: str) -> Draft:
    """A draft in which some jobs can only go to a site."""
    there = {name: {site: draft.candidates[name][site]} for name in group}
    sites = {name: at for name, at in draft.sites.items() if name not in group or at == site}
    return replace(draft, candidates={**draft.candidates, **there}, sites=sites)
