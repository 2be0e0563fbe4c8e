"""The findings of ``speck doctor``: conditions that may lose messages or block jobs, each with a remedy.

Engines and brokers are asked now, side by side; nothing is changed.  A binder without a capability has no
findings of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import speck
from speck.binder import Capability
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.coordinator.agents import Agents
from speck.coordinator.planning.cycles import cycle_text, shared_cycles
from speck.coordinator.shared_calls import SharedCalls
from speck.core.inventory import Inventory
from speck.core.lifecycle import AttemptPhase
from speck.core.waiting import exact_text
from speck.errors import Rejected
from speck.observe.between import edges_of
from speck.observe.healthcheck import examine, without_stopped
from speck.observe.losses import RECENT, LossKind, LossRecorder, receives_qos0
from speck.observe.readers import ReaderWatch
from speck.observe.sampler import Sampler
from speck.standby.primary import Primary
from speck.store import AttemptRecord
from speck.store.deployments import Deployments, Snapshot

PATIENCE = 55.0  # s, for all checks: longer than that of the sites, and a request waits for a minute
NEAR = 0.5  # of the size beyond which a session drops messages


class Finding(StrEnum):
    """The kinds of findings."""

    STANDBY = "standby not in step"
    VERSION = "standby of another version"
    SITE = "site"  # of the health check: unreachable, lossy settings, clocks
    AGENT = "agent"  # away, of another version, or two with one token
    SESSION = "session near its limit"
    STRANDED = "messages stranded"
    STATE = "state unreadable"
    SINK = "sink retains too much"
    READER = "reader not connected"
    UNREAD = "not reading"
    QOS0 = "messages at QoS 0"
    CYCLE = "cycle of jobs"
    STAMPS = "stamps ignored"
    LOSS = "messages lost"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: ``where`` is a job's name or an address."""

    finding: Finding
    where: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Doctor:
    """Checks everything that a coordinator knows."""

    deployments: Deployments
    pool: BinderPool
    inventory: Inventory
    sampler: Sampler
    losses: LossRecorder
    readers: ReaderWatch
    agents: Agents
    stopped: Callable[[], Set[str]]  # the engines of pools that were, as no job needs them
    primary: Primary | None = None

    _calls: SharedCalls = field(default_factory=SharedCalls, repr=False)

    def diagnose(self) -> list[dict[str, Any]]:
        """All findings as plain data, by kind and place; a diagnosis that is under way is shared."""
        return self._calls.of("", self._diagnose)

    def _diagnose(self) -> list[dict[str, Any]]:
        snapshots = self.deployments.snapshots()
        brokers = {form.source_broker for each in snapshots for form in each.forms.values()}
        brokers |= {site.broker_address for site in self.inventory.places()}
        checks: list[Callable[[], Iterable[Diagnosis]]] = [
            *(self._standby, self._sites, self._agents, self._sinks, self._lost, self._stamps, self._unread),
            partial(self._cycles, snapshots),
            *(partial(self._sessions, address) for address in brokers),
            *(partial(self._stranded, address) for address in brokers),
            *(partial(self._deleted, address, snapshots) for address in brokers),
            *(
                partial(self._state, snapshot, records[-1])
                for snapshot in snapshots
                for records in snapshot.attempts.values()
                if records
            ),
        ]
        # An engine or a broker that does not answer is a finding of its site.
        asked = ask(checks, lambda check: list(check()), PATIENCE, name="doctor")
        found = [each for diagnoses in asked.answers.values() for each in diagnoses]
        kinds = list(Finding)
        found.sort(key=lambda each: (kinds.index(each.finding), each.where, each.message))
        return [asdict(each) for each in found]

    def _standby(self) -> Iterator[Diagnosis]:
        found = None if self.primary is None else self.primary.status()
        if found is not None and not found["in_sync"]:
            message = f"the standby would not take over: {found['reason']}"
            yield Diagnosis(
                Finding.STANDBY,
                "standby",
                message,
                "see the log of the standby, and check the connection to it",
            )
        if found is not None and found["other_version"]:
            message = (
                f"the version of the standby is {found['other_version']}, that of this server "
                f"{speck.__version__}"
            )
            remedy = "upgrade the older of the two: it may be unable to read what the newer one has stored"
            yield Diagnosis(Finding.VERSION, "standby", message, remedy)

    def _sites(self) -> Iterator[Diagnosis]:
        found = examine(self.inventory, self.pool, edges=edges_of(self.deployments.snapshots()))
        for each in without_stopped(found, self.stopped()):
            for complaint in each.found.complaints:
                if complaint.remark:
                    continue
                remedy = complaint.remedy or "see the message"
                yield Diagnosis(Finding.SITE, each.address, f"{each.site}: {complaint.message}", remedy)

    def _agents(self) -> Iterator[Diagnosis]:
        for site, found in self.agents.all():
            if (trouble := self._agent_trouble(site, found)) is not None:
                yield Diagnosis(Finding.AGENT, site, *trouble)
            if (second := self.agents.second(site)) is not None:
                yield Diagnosis(
                    Finding.AGENT,
                    site,
                    f"machine {second.second} has the token of the agent on machine {second.first}",
                    f"run one agent for each site; after a theft: speck sites revoke {site}",
                )

    def _agent_trouble(self, site: str, found: Mapping[str, Any]) -> tuple[str, str] | None:
        """The message and the remedy for an agent (as plain data) that is away, refused or outdated."""
        if found["revoked"]:
            return "its agent was revoked", f"let another join: speck sites add {site}"
        if (refused := self.agents.epoch_refusal(site)) is not None:
            return (
                f"its agent refuses this server, whose epoch is {refused.epoch}: it was connected to one "
                f"of epoch {refused.known}",
                f"if the server of epoch {refused.known} still runs, stop this one; otherwise let the "
                f"site join again: speck sites add {site}, then speck sites join at the site, with its "
                "agent stopped (docs/agents.md, Two servers)",
            )
        if not found["connected"]:
            message = "its agent is away" if found["since"] else "its agent has never been connected"
            return message, "see speck agent status at the site; the jobs there continue meanwhile"
        if found["version"] != speck.__version__:
            return (
                f"its agent has version {found['version']}, the server {speck.__version__}",
                f"speck sites upgrade {site}, or install the server's version at the site",
            )
        return None

    def _sessions(self, address: str) -> Iterator[Diagnosis]:
        broker = self.pool.broker(address)
        dropped, stored = broker.dropped(), broker.stored_bytes()
        if dropped:
            yield Diagnosis(
                Finding.SESSION,
                address,
                f"the broker has dropped {dropped} messages since its start, since a session was full",
                "find the slow reader (speck jobs), and raise max_queued_bytes of the broker",
            )
        bound = self.inventory.broker(address).max_queued_bytes
        if stored is not None and bound and stored >= NEAR * bound:
            yield Diagnosis(
                Finding.SESSION,
                address,
                f"the broker keeps {stored / 1e6:.0f} MB; a session drops messages beyond max_queued_bytes "
                f"({bound / 1e6:g} MB, from the inventory or by default)",
                "find the slow reader (speck jobs) and restart it or raise its parallelism; "
                "or raise max_queued_bytes",
            )

    def _stranded(self, address: str) -> Iterator[Diagnosis]:
        if stranded := self.pool.broker(address).stranded():
            yield Diagnosis(
                Finding.STRANDED,
                address,
                f"no process sends {exact_text(stranded)} on the disk of its site, which the broker may have "
                "lost",
                "start a job at an engine of the site that reads from the broker or writes to it, such as by "
                "moving one back for a minute; or delete them (docs/faults.md)",
            )

    def _deleted(self, address: str, snapshots: Iterable[Snapshot]) -> Iterator[Diagnosis]:
        """The messages that a broker deleted before a job that is away has read them."""
        broker = self.pool.broker(address)
        if Capability.BACKLOG not in broker.capabilities:
            return
        jobs = {
            session.name: (name, session.topic)
            for snapshot in snapshots
            for name, session in snapshot.current_sessions().items()
            if session.broker == address
        }
        for session, backlog in broker.behind(sorted(jobs)).items():
            name, topic = jobs[session]
            if backlog.deleted:
                yield Diagnosis(
                    Finding.LOSS,
                    name,
                    f"{exact_text(backlog.deleted)} of topic {topic!r} at {address} were deleted before the "
                    "job read them: it will continue behind them",
                    "raise retention.ms of the topic, or let SpecK make the topic, and start the job",
                )

    def _state(self, snapshot: Snapshot, record: AttemptRecord) -> Iterator[Diagnosis]:
        name = record.attempt.job_name
        form, handle = snapshot.forms.get(name), record.handle
        if form is None or handle is None or record.phase is not AttemptPhase.RUNNING:
            return
        if form.upgrade == "stateless":
            return
        engine = self.pool.engine(form)
        if Capability.OFFLINE_STATE not in engine.capabilities:
            return
        try:
            state = engine.left_state(handle)
            fault = None if state is None else engine.state_fault(state)
        except Rejected as error:
            fault = str(error)
        if fault:
            remedy = "let this machine and the engine see checkpoint_dir, or write upgrade: stateless"
            yield Diagnosis(Finding.STATE, name, fault, remedy)

    def _sinks(self) -> Iterator[Diagnosis]:
        for name, details in self.sampler.details().items():
            forgotten, throttled = details.get("retainedDropped", 0), details.get("throttledMillis", 0)
            if isinstance(forgotten, int) and forgotten > 0:
                yield Diagnosis(
                    Finding.SINK,
                    name,
                    f"its sink dropped {forgotten} retained messages early: they are lost only if the broker "
                    "loses what it has not saved",
                    "raise speck.sink.keepMegabytes at the engine, or lower autosave_interval of the broker; "
                    "if the engine's log says that the broker rejected them, let its user publish there",
                )
            if isinstance(throttled, int) and throttled > 0:
                yield Diagnosis(
                    Finding.SINK,
                    name,
                    f"its sink waited {throttled / 1000:.0f} s for readers of its topic to catch up",
                    "find the slow reader (speck jobs), and raise its parallelism",
                )
            if receives_qos0(details):
                yield Diagnosis(
                    Finding.QOS0,
                    name,
                    "it receives messages at QoS 0, which are lost while it is updated, moved or healed",
                    "add the line 'upgrade_outgoing_qos true' to mosquitto.conf, or let the devices publish "
                    "at QoS 1 (docs/mqtt.md, Messages at QoS 0)",
                )
            if details.get("connected") in (0, False, "false"):
                yield Diagnosis(
                    Finding.READER,
                    name,
                    "its reader has no connection to its broker",
                    "check the broker, and the login in the inventory; a refused reader ends after a minute",
                )

    @staticmethod
    def _cycles(snapshots: Iterable[Snapshot]) -> Iterator[Diagnosis]:
        for names, path in shared_cycles({each.head.name: each.desired.values() for each in snapshots}):
            yield Diagnosis(
                Finding.CYCLE,
                names[0],
                cycle_text(path),
                "let the data flow one way: give one of these jobs another source_topic or sink_topic",
            )

    def _unread(self) -> Iterator[Diagnosis]:
        for name, fault in self.readers.unread().items():
            yield Diagnosis(
                Finding.UNREAD,
                name,
                fault,
                "check the path from the engine to the broker (speck sites check --from-engines), and set "
                "job_broker_address in the inventory if jobs need another address; a program must read by "
                "SpecK's source (docs/flink-jobs.md)",
            )

    def _stamps(self) -> Iterator[Diagnosis]:
        since = self.losses.clock() - RECENT
        for each in self.losses.counts():
            if each.reason.name == "stamp" and each.last >= since:
                yield Diagnosis(
                    Finding.STAMPS,
                    each.job,
                    f"{exact_text(each.total)} had the stamp of a program that is not a job of this SpecK "
                    "that writes the topic, or a damaged stamp: delivered at least once, as without one",
                    "let the program leave out speck-job and speck-seq (a copy of a record keeps them), or "
                    "apply the job that writes them here (docs/faults.md, What a reader has seen)",
                )

    def _lost(self) -> Iterator[Diagnosis]:
        for each in self.losses.counts():
            alarm = any(
                loss["alarm"] for loss in self.losses.of_job(each.job) if loss["reason"] == each.reason.name
            )
            if alarm and each.reason.kind in (LossKind.LOST, LossKind.SUSPECT):
                yield Diagnosis(
                    Finding.LOSS,
                    each.job,
                    f"{each.number} {each.reason.text}",
                    f"see speck events --job {each.job}; docs/faults.md, Loss is seen",
                )
