"""Wires the parts of one coordinator; no other module has to name them all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
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
from speck.core.live_inventory import live
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
from speck.store import Event, Store
from speck.store.artifacts import Artifacts, ServedFiles, with_query_runners
from speck.store.deployments import Deployments
from speck.store.history import History
from speck.store.retention import Retention
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


def _write_events(store: Store, events: Iterable[Event]) -> None:
    with store.transaction() as transaction:
        for event in events:
            transaction.add_event(event)


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
    inventory, settings, backoff = (
        live(inventory or Inventory()),
        settings or Settings(),
        backoff or Backoff(),
    )
    metrics = Metrics(clock)
    uploads = Uploads(store.directory / "uploads", store.directory / "artifacts", clock, settings.sent_code)
    runners = [each.queries.path for each in registry.engines if each.queries is not None]
    sent = with_query_runners(runners, uploads.content)
    artifacts = Artifacts(store.directory / "artifacts", settings.roots, sent, primary)
    files = ServedFiles(store.directory, settings.advertise, primary) if settings.advertise else None
    pool = BinderPool(registry, inventory, files, metrics.called, store.identity)
    pool.remote = remote or pool.remote
    pool.permit = pool.permit if primary is None else primary.permit
    if agents is None:
        agents = Agents(Enrolment(store, inventory, registry, clock))
    agents.enrolment.on_changed.append(pool.forget)
    history = History(store)
    deployments, retention = Deployments(store, history), Retention(store, artifacts, history, files)
    code = CodeChanges(artifacts, registry, deployments)
    losses = LossRecorder(clock, partial(_write_events, store))
    store.on_event.append(losses.note_event)
    pace = Pace(settings.measuring)
    measures = Measures(deployments, pool, inventory, clock, metrics.rejected, pace=pace)
    curves = Curves(clock)
    pool.in_use = agents.enrolment.taken = used = UsedAddresses(deployments, inventory)
    agents.enrolment.jobs_at = used.jobs_at
    pool.on_forgotten.append(metrics.forget)
    observer, sampler = Observer(pool, clock), Sampler(deployments, pool, losses, measures, curves)
    pool.on_forgotten.append(observer.forget_engines)
    prober = Prober(measures, pool, inventory, clock)
    operations = Operations(deployments, retention, observer, pool, mint, clock, settings)
    agents.enrolment.frozen = operations.frozen
    reaper = Reaper(store, pool, clock)
    operations.on_applied.append(reaper.reap_after)
    operations.on_end.append(lambda operation, _, state: metrics.operation_ended(operation.to_dict(), state))
    readers = ReaderWatch(pool, inventory, clock, partial(_write_events, store), sampler.connected)
    pool.on_forgotten.append(readers.forget)
    reconciler = Reconciler(
        deployments, observer, pool, operations, reaper, clock, backoff, metrics, readers=readers
    )
    adaptation = Adaptation(
        deployments, operations, reconciler, sampler, measures, metrics, clock, settings.adapt
    )
    report = partial(_write_events, store)
    workers = WorkerController(
        deployments, operations, pool, inventory, sampler, measures, metrics, report, clock
    )
    splits = SplitWatch(deployments, pool, losses, clock)
    store.on_event.append(splits.note_event)
    queries = Queries(
        deployments=deployments,
        history=history,
        retention=retention,
        operations=operations,
        observer=observer,
        reconciler=reconciler,
        sampler=sampler,
        losses=losses,
        readers=readers,
        splits=splits,
        pool=pool,
        inventory=inventory,
        clock=clock,
        code=code,
    )
    profiles = ProfileQueries(deployments, sampler, measures, prober, inventory, clock)
    engine_plans = EnginePlans(deployments, pool, sampler, measures, clock)
    pools = EnginePools(
        deployments,
        inventory,
        workers.cores_of,
        silent=partial(silent_engines, pool),
        startable=workers.startable_engines,
        leaving=workers.leaving_engines,
    )
    placer = Placer(deployments, pool, inventory, inputs or profiles.inputs, settings.state_limit, pools)
    planner = Planner(store, inventory, settings, pool, deployments, observer, sampler, code, artifacts)
    changes = Changes(
        store=store,
        settings=settings,
        clock=clock,
        artifacts=artifacts,
        deployments=deployments,
        operations=operations,
        backoff=backoff,
        placer=placer,
        cuts=CutChooser(deployments, placer, CutCorrections(store, clock)),
        code=code,
        builds=Builds(pool, artifacts),
        planner=planner,
        resolver=Resolver(deployments, history, artifacts, placer),
        acceptance=Acceptance(store, operations),
        adoptions=Adoptions(store, pool),
    )
    reverts = AtomicReverts(store, operations, changes)
    operations.on_atomic_failure.append(reverts.revert)
    upgrades = Upgrades(agents, inventory, deployments, operations, pool, losses)
    coordinator = Coordinator(
        store=store,
        registry=registry,
        inventory=inventory,
        settings=settings,
        clock=clock,
        pool=pool,
        artifacts=artifacts,
        retention=retention,
        history=history,
        deployments=deployments,
        observer=observer,
        sampler=sampler,
        prober=prober,
        operations=operations,
        reaper=reaper,
        reconciler=reconciler,
        adaptation=adaptation,
        splits=splits,
        workers=workers,
        agents=agents,
        upgrades=upgrades,
        contacts=Contacts(reaper, inventory.addresses_at, reconciler.loop.wake),
        keeping=Keeping(pool, partial(_brokers_of, deployments)),
        backoff=backoff,
        placer=placer,
        changes=changes,
        reverts=reverts,
        interrupted=InterruptedOperations(
            store, deployments, operations, planner, backoff, clock, reconciler.steady
        ),
    )
    adaptation.mover = Mover(deployments, placer, changes)
    sites = SiteQueries(store, pool, inventory, reconciler.orphans, workers, deployments, agents)
    doctor = Doctor(
        deployments, pool, inventory, sampler, losses, readers, agents, workers.stopped_engines, primary
    )
    return Services(
        coordinator=coordinator,
        changes=changes,
        queries=queries,
        sites=sites,
        profiles=profiles,
        engine_plans=engine_plans,
        metrics=metrics,
        doctor=doctor,
        retained_plans=RetainedPlans(changes, placer, mint, clock),
        adaptation=adaptation,
        agents=agents,
        upgrades=upgrades,
        files=files,
        uploads=uploads,
        primary=primary,
    )


def _brokers_of(deployments: Deployments) -> set[str]:
    """The addresses of the brokers of all desired jobs."""
    jobs = [job for each in deployments.snapshots() for job in each.desired.values()]
    return {address for job in jobs for address in (job.source_broker, job.sink_broker)}
