"""The coordinator: starts and shuts down its parts, and reports their health.

Changes are accepted by :mod:`speck.coordinator.changes`, which decides nothing about single jobs
(:mod:`speck.core.plan` does) and calls no engine (:mod:`speck.apply.executor` and
:mod:`speck.observe.observer` do).  Users go before the reconciler (:mod:`speck.controller.reconciler`), which
heals by operations that are applied like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from speck.apply.operations import Operations
from speck.binder import Registry
from speck.binder.pool import BinderPool
from speck.controller.adaptation import Adaptation
from speck.controller.backoff import Backoff
from speck.controller.contacts import Contacts
from speck.controller.keeping import Keeping
from speck.controller.reaper import Reaper
from speck.controller.reconciler import Reconciler
from speck.controller.workers import WorkerController
from speck.coordinator.agents import Agents, Upgrades
from speck.coordinator.atomic_reverts import AtomicReverts
from speck.coordinator.changes import Changes
from speck.coordinator.interrupted import InterruptedOperations
from speck.coordinator.placing.placer import Placer
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.observe.observer import Observer
from speck.observe.probing import Prober
from speck.observe.sampler import Sampler
from speck.observe.split_watch import SplitWatch
from speck.store import Store
from speck.store.artifacts import clear_scratch
from speck.store.deployments import Deployments
from speck.store.retention import Retention

CLOSING = 60.0  # s, for which the end waits for running operations


@dataclass
class Coordinator:
    """Starts and shuts down its parts (:func:`speck.coordinator.build` wires them).

    One per store.  Safe to use from several threads.
    """

    store: Store
    registry: Registry
    inventory: Inventory
    settings: Settings
    pool: BinderPool
    retention: Retention
    deployments: Deployments
    observer: Observer
    sampler: Sampler
    prober: Prober
    operations: Operations
    reaper: Reaper
    reconciler: Reconciler
    adaptation: Adaptation
    splits: SplitWatch
    workers: WorkerController
    agents: Agents
    upgrades: Upgrades
    contacts: Contacts
    keeping: Keeping
    backoff: Backoff
    placer: Placer
    changes: Changes
    reverts: AtomicReverts
    interrupted: InterruptedOperations
    _recovered: bool = field(default=False, init=False)

    def start(self) -> None:
        """Resume the operations that a crash or a stop interrupted, and begin to reconcile."""
        self.backoff.keep_in(self.store, self.reconciler.steady(), self.reconciler.offset)
        clear_scratch(self.store.directory)
        self.retention.sweep_code()  # code that was stored, but not accepted
        self.interrupted.resume()
        self.reverts.resume()
        if self.settings.period:
            self.reconciler.start(self.settings.period)
            self.sampler.watch()
            self.splits.start()
            self.workers.start()
            self.keeping.loop.start()
            self.agents.loop.start()
            self.contacts.loop.start()
        self.adaptation.start()
        self._recovered = True

    def close(self, seconds: float = CLOSING) -> None:
        """Accept nothing new, wait for the running operations, and disconnect from engines and brokers.

        Waits ``seconds`` for the operations, of which the next start resumes those that run still, and only
        a moment for calls whose answers are used no more: an engine that is silent holds up no end.
        """
        self.finish_operations(seconds)
        self.agents.close()
        self.prober.close()
        self.splits.close()
        self.workers.close()
        self.keeping.loop.close()
        self.sampler.close()
        self.observer.close()
        self.pool.close()

    def finish_operations(self, seconds: float | None = None) -> None:
        """Accept nothing new, and wait for the running operations, for at most ``seconds``."""
        self.operations.refuse_new()
        self.upgrades.close()
        self.adaptation.close()
        self.contacts.loop.close()
        self.reconciler.close()
        self.operations.join(seconds)

    def named_code(self) -> set[str]:
        """The hashes of the code that stored revisions name; none is accepted or forgotten meanwhile."""
        with self.operations.frozen():
            return self.retention.named_code()

    # --- health

    def faults(self) -> list[str]:
        """The faults that only a restart can repair, one sentence each."""
        parts = (
            *(self.reconciler, self.adaptation, self.workers, self.keeping),
            *(self.splits, self.sampler, self.prober, self.agents, self.contacts),
        )
        return [fault for part in parts if (fault := part.loop.fault())]

    def unready_reasons(self) -> list[str]:
        """The reasons why this coordinator cannot do all of its work now, one sentence each."""
        reasons = {
            "interrupted operations have not been resumed yet": not self._recovered,
            "the engines have not been observed yet": not self.reconciler.has_observed,
            "the server is shutting down": self.operations.is_closing,
            "the store cannot be written (see GET /healthz)": self.store.failure is not None,
        }
        return [reason for reason, applies in reasons.items() if applies]
