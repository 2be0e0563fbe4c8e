"""Wires the parts of one coordinator; no other module has to name them all.

:func:`build` does it layer by layer, in the order of the packages: what is stored, the places that are
reached, what is observed of them, the operations and the loops that begin some, and the plans of changes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from speck.apply.adoption import Adoptions
from speck.apply.operations import Operations
from speck.binder import Registry
from speck.binder.pool import BinderPool, Remote
from speck.controller.adaptation import Adaptation
from speck.controller.backoff import Backoff
from speck.controller.contacts import Contacts
from speck.controller.keeping import Keeping
from speck.controller.reaper import Reaper
from speck.controller.reconciler import Reconciler
from speck.controller.workers import WorkerController
from speck.coordinator.acceptance import Acceptance
from speck.coordinator.addresses import UsedAddresses
from speck.coordinator.agents import Agents, Enrolment, Upgrades
from speck.coordinator.atomic_reverts import AtomicReverts
from speck.coordinator.changes import Changes
from speck.coordinator.coordinator import Coordinator
from speck.coordinator.interrupted import InterruptedOperations
from speck.coordinator.mover import Mover
from speck.coordinator.placing.cut_corrections import CutCorrections
from speck.coordinator.placing.cuts import CutChooser
from speck.coordinator.placing.models import Models
from speck.coordinator.placing.placer import Placer
from speck.coordinator.placing.pools import EnginePools
from speck.coordinator.placing.portability import silent_engines
from speck.coordinator.planning.builds import Builds
from speck.coordinator.planning.code_changes import CodeChanges
from speck.coordinator.planning.planner import Planner
from speck.coordinator.planning.resolver import Resolver
from speck.coordinator.queries.compositions import Queries
from speck.coordinator.queries.doctor import Doctor
from speck.coordinator.queries.engine_plans import EnginePlans
from speck.coordinator.queries.profiles import ProfileQueries
from speck.coordinator.queries.sites import SiteQueries
from speck.coordinator.retained_plans import RetainedPlans
from speck.core.inventory import Inventory
from speck.core.live_inventory import LiveInventory, live
from speck.core.settings import Settings
from speck.observe.curves import Curves
from speck.observe.losses import LossRecorder
from speck.observe.measures import Measures
from speck.observe.metrics import Metrics
from speck.observe.observer import Observer
from speck.observe.pace import Pace
from speck.observe.probing import Prober
from speck.observe.readers import ReaderWatch
from speck.observe.sampler import Sampler
from speck.observe.split_watch import SplitWatch
from speck.placement.profile import Inputs
from speck.standby.primary import Primary
from speck.store import Store
from speck.store.artifacts import Artifacts, with_query_runners
from speck.store.deployments import Deployments
from speck.store.history import History
from speck.store.retention import Retention
from speck.store.served_files import ServedFiles
from speck.store.uploads import Uploads


@dataclass(frozen=True)
class Services:
    """The parts of one coordinator that the REST interface uses.

    ``files`` serves artifacts to engines; ``None`` where the coordinator has no URL for them.  ``primary`` is
    ``None`` for a server without a standby.
    """

    coordinator: Coordinator
    changes: Changes
    queries: Queries
    sites: SiteQueries
    profiles: ProfileQueries
    engine_plans: EnginePlans
    metrics: Metrics
    doctor: Doctor
    retained_plans: RetainedPlans
    adaptation: Adaptation
    agents: Agents
    upgrades: Upgrades
    files: ServedFiles | None
    uploads: Uploads
    primary: Primary | None = None


def _new_id() -> str:
    return uuid.uuid4().hex


def build(
    store: Store,
    registry: Registry,
    inventory: Inventory | None = None,
    settings: Settings | None = None,
    *,
    mint: Callable[[], str] = _new_id,
    clock: Callable[[], float] = time.time,
    backoff: Backoff | None = None,
    inputs: Callable[[], Inputs] | None = None,
    remote: Remote | None = None,
    agents: Agents | None = None,
    primary: Primary | None = None,
) -> Services:
    """One coordinator of a store, not started yet.  ``mint`` makes ids, ``clock`` gives Unix time, s.

    ``inputs`` gives the profiles from which jobs are placed, ``remote`` the binders of places that are not
    reached by their addresses.  ``agents`` are those of sites; ``None``: no site may have one.
    ``primary`` is this server's part in its pair; ``None`` for one without a standby.
    """
    inventory = live(inventory or Inventory())
    given = _Given(
        store=store,
        registry=registry,
        inventory=inventory,
        settings=settings or Settings(),
        mint=mint,
        clock=clock,
        backoff=backoff or Backoff(),
        inputs=inputs,
        remote=remote,
        agents=agents or Agents(Enrolment(store, inventory, registry, clock)),
        primary=primary,
    )
    stored = _stored(given)
    places = _places(given, stored)
    observed = _observed(given, stored, places)
    work = _work(given, stored, places, observed)
    planning = _planning(given, stored, places, observed, work)
    return _services(given, stored, places, observed, work, planning)


# --- the steps: each makes the parts of one layer out of those below it, and joins them


@dataclass(frozen=True)
class _Given:
    """The parameters of :func:`build`, with their defaults."""

    store: Store
    registry: Registry
    inventory: LiveInventory
    settings: Settings
    mint: Callable[[], str]
    clock: Callable[[], float]
    backoff: Backoff
    inputs: Callable[[], Inputs] | None
    remote: Remote | None
    agents: Agents
    primary: Primary | None


@dataclass(frozen=True)
class _Stored:
    """The deployments that the store has, and the code beside it."""

    uploads: Uploads
    artifacts: Artifacts
    files: ServedFiles | None
    history: History
    deployments: Deployments
    retention: Retention
    code: CodeChanges


def _stored(given: _Given) -> _Stored:
    store, settings, primary = given.store, given.settings, given.primary
    kept = store.directory / "artifacts"
    uploads = Uploads(store.directory / "uploads", kept, given.clock, settings.sent_code)
    runners = [each.queries.path for each in given.registry.engines if each.queries is not None]
    artifacts = Artifacts(kept, settings.roots, with_query_runners(runners, uploads.content), primary)
    files = ServedFiles(store.directory, settings.advertise, primary) if settings.advertise else None
    history = History(store)
    deployments = Deployments(store, history)
    return _Stored(
        uploads=uploads,
        artifacts=artifacts,
        files=files,
        history=history,
        deployments=deployments,
        retention=Retention(store, artifacts, history, files),
        code=CodeChanges(artifacts, given.registry, deployments),
    )


@dataclass(frozen=True)
class _Places:
    """The engines and brokers, and the metrics of the calls to them."""

    pool: BinderPool
    metrics: Metrics


def _places(given: _Given, stored: _Stored) -> _Places:
    metrics, enrolment = Metrics(given.clock), given.agents.enrolment
    pool = BinderPool(given.registry, given.inventory, stored.files, metrics.called, given.store.identity)
    pool.remote = given.remote or pool.remote
    pool.permit = pool.permit if given.primary is None else given.primary.permit
    pool.on_forgotten.append(metrics.forget)
    pool.in_use = enrolment.taken = used = UsedAddresses(stored.deployments, given.inventory)
    enrolment.jobs_at = used.jobs_at
    enrolment.on_changed.append(pool.forget)
    return _Places(pool, metrics)


@dataclass(frozen=True)
class _Observed:
    """The parts that observe and measure the jobs and their places."""

    losses: LossRecorder
    measures: Measures
    observer: Observer
    sampler: Sampler
    prober: Prober
    readers: ReaderWatch
    splits: SplitWatch


def _observed(given: _Given, stored: _Stored, places: _Places) -> _Observed:
    clock, inventory, deployments, pool = given.clock, given.inventory, stored.deployments, places.pool
    losses = LossRecorder(clock, given.store.add_events)
    measures = Measures(
        deployments, pool, inventory, clock, places.metrics.rejected, pace=Pace(given.settings.measuring)
    )
    observer = Observer(pool, clock)
    sampler = Sampler(deployments, pool, losses, measures, Curves(clock))
    readers = ReaderWatch(pool, inventory, clock, given.store.add_events, sampler.connected)
    splits = SplitWatch(deployments, pool, losses, clock)
    given.store.on_event.extend((losses.note_event, splits.note_event))
    pool.on_forgotten.extend((observer.forget_engines, readers.forget))
    return _Observed(
        losses=losses,
        measures=measures,
        observer=observer,
        sampler=sampler,
        prober=Prober(measures, pool, inventory, clock),
        readers=readers,
        splits=splits,
    )


@dataclass(frozen=True)
class _Work:
    """The operations, and the loops that begin some."""

    operations: Operations
    reaper: Reaper
    reconciler: Reconciler
    adaptation: Adaptation
    workers: WorkerController


def _work(given: _Given, stored: _Stored, places: _Places, observed: _Observed) -> _Work:
    settings, clock, deployments = given.settings, given.clock, stored.deployments
    pool, metrics, sampler, measures = places.pool, places.metrics, observed.sampler, observed.measures
    observer, inventory, backoff = observed.observer, given.inventory, given.backoff
    operations = Operations(deployments, stored.retention, observer, pool, given.mint, clock, settings)
    given.agents.enrolment.frozen = operations.frozen
    reaper = Reaper(given.store, pool, clock)
    operations.on_applied.append(reaper.reap_after)
    operations.on_end.append(lambda operation, _, state: metrics.operation_ended(operation.to_dict(), state))
    reconciler = Reconciler(
        deployments, observer, pool, operations, reaper, clock, backoff, metrics, readers=observed.readers
    )
    adaptation = Adaptation(
        deployments, operations, reconciler, sampler, measures, metrics, clock, settings.adapt
    )
    report = given.store.add_events
    workers = WorkerController(
        deployments, operations, pool, inventory, sampler, measures, metrics, report, clock
    )
    return _Work(operations, reaper, reconciler, adaptation, workers)


@dataclass(frozen=True)
class _Planning:
    """The parts that plan changes and accept them."""

    profiles: ProfileQueries
    placer: Placer
    planner: Planner
    changes: Changes
    reverts: AtomicReverts


def _planning(given: _Given, stored: _Stored, places: _Places, observed: _Observed, work: _Work) -> _Planning:
    store, settings, inventory, pool = given.store, given.settings, given.inventory, places.pool
    artifacts, deployments, operations = stored.artifacts, stored.deployments, work.operations
    profiles = ProfileQueries(
        deployments, observed.sampler, observed.measures, observed.prober, inventory, given.clock
    )
    pools = _engine_pools(given, stored, places, work)
    models = Models(deployments, pool, inventory)
    placer = Placer(
        deployments, pool, inventory, given.inputs or profiles.inputs, settings.state_limit, pools, models
    )
    planner = Planner(
        store=store,
        inventory=inventory,
        settings=settings,
        pool=pool,
        deployments=deployments,
        observer=observed.observer,
        sampler=observed.sampler,
        code=stored.code,
        artifacts=artifacts,
    )
    changes = Changes(
        store=store,
        settings=settings,
        clock=given.clock,
        artifacts=artifacts,
        deployments=deployments,
        operations=operations,
        backoff=given.backoff,
        placer=placer,
        cuts=CutChooser(deployments, placer, CutCorrections(store, given.clock)),
        code=stored.code,
        builds=Builds(pool, artifacts),
        planner=planner,
        resolver=Resolver(deployments, stored.history, artifacts, placer),
        acceptance=Acceptance(store, operations),
        adoptions=Adoptions(store, pool),
    )
    reverts = AtomicReverts(store, operations, changes)
    operations.on_atomic_failure.append(reverts.revert)
    work.adaptation.mover = Mover(deployments, placer, changes)
    return _Planning(profiles, placer, planner, changes, reverts)


def _engine_pools(given: _Given, stored: _Stored, places: _Places, work: _Work) -> EnginePools:
    return EnginePools(
        stored.deployments,
        given.inventory,
        work.workers.cores_of,
        silent=partial(silent_engines, places.pool),
        startable=work.workers.startable_engines,
        leaving=work.workers.leaving_engines,
    )


# --- the parts that the server uses


def _services(
    given: _Given, stored: _Stored, places: _Places, observed: _Observed, work: _Work, planning: _Planning
) -> Services:
    pool, agents, deployments, workers = places.pool, given.agents, stored.deployments, work.workers
    upgrades = Upgrades(agents, given.inventory, deployments, work.operations, pool, observed.losses)
    return Services(
        coordinator=_coordinator(given, stored, places, observed, work, planning, upgrades),
        changes=planning.changes,
        queries=_queries(given, stored, places, observed, work),
        sites=SiteQueries(
            given.store, pool, given.inventory, work.reconciler.orphans, workers, deployments, agents
        ),
        profiles=planning.profiles,
        engine_plans=EnginePlans(deployments, pool, observed.sampler, observed.measures, given.clock),
        metrics=places.metrics,
        doctor=_doctor(given, deployments, pool, observed, workers),
        retained_plans=RetainedPlans(planning.changes, planning.placer, given.mint, given.clock),
        adaptation=work.adaptation,
        agents=agents,
        upgrades=upgrades,
        files=stored.files,
        uploads=stored.uploads,
        primary=given.primary,
    )


def _queries(given: _Given, stored: _Stored, places: _Places, observed: _Observed, work: _Work) -> Queries:
    return Queries(
        deployments=stored.deployments,
        history=stored.history,
        retention=stored.retention,
        operations=work.operations,
        observer=observed.observer,
        reconciler=work.reconciler,
        sampler=observed.sampler,
        losses=observed.losses,
        readers=observed.readers,
        splits=observed.splits,
        pool=places.pool,
        inventory=given.inventory,
        clock=given.clock,
        code=stored.code,
    )


def _coordinator(
    given: _Given,
    stored: _Stored,
    places: _Places,
    observed: _Observed,
    work: _Work,
    planning: _Planning,
    upgrades: Upgrades,
) -> Coordinator:
    deployments, reconciler = stored.deployments, work.reconciler
    return Coordinator(
        store=given.store,
        registry=given.registry,
        inventory=given.inventory,
        settings=given.settings,
        pool=places.pool,
        retention=stored.retention,
        deployments=deployments,
        observer=observed.observer,
        sampler=observed.sampler,
        prober=observed.prober,
        operations=work.operations,
        reaper=work.reaper,
        reconciler=reconciler,
        adaptation=work.adaptation,
        splits=observed.splits,
        workers=work.workers,
        agents=given.agents,
        upgrades=upgrades,
        contacts=Contacts(work.reaper, given.inventory.addresses_at, reconciler.loop.wake),
        keeping=Keeping(places.pool, partial(_brokers_of, deployments)),
        backoff=given.backoff,
        placer=planning.placer,
        changes=planning.changes,
        reverts=planning.reverts,
        interrupted=_interrupted(given, deployments, work, planning),
    )


def _doctor(
    given: _Given, deployments: Deployments, pool: BinderPool, observed: _Observed, workers: WorkerController
) -> Doctor:
    return Doctor(
        deployments,
        pool,
        given.inventory,
        observed.sampler,
        observed.losses,
        observed.readers,
        given.agents,
        workers.stopped_engines,
        given.primary,
    )


def _interrupted(
    given: _Given, deployments: Deployments, work: _Work, planning: _Planning
) -> InterruptedOperations:
    return InterruptedOperations(
        given.store,
        deployments,
        work.operations,
        planning.planner,
        given.backoff,
        given.clock,
        work.reconciler.steady,
    )


def _brokers_of(deployments: Deployments) -> set[str]:
    """The addresses of the brokers of all desired jobs."""
    jobs = [job for each in deployments.snapshots() for job in each.desired.values()]
    return {address for job in jobs for address in (job.source_broker, job.sink_broker)}
