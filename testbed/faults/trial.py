"""One composition that is changed again and again while its coordinator dies: what is left each time?

A round applies a change to a server that is killed; starts a plain server on what is left; and looks, by
means of its own, whether engines and brokers come to hold what is wanted and nothing else.  What was accepted
must come true without help; what was not must have changed nothing.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import yaml

from speck.client import Client, RequestRefused
from speck.errors import ServerError, SpeckError
from testbed import ROOT
from testbed.faults.compositions import FIRST, NAME, JobForm, Programs, Version, versions
from testbed.faults.expected import faults
from testbed.faults.served import Counted, Served
from testbed.faults.sites import Place, Probe, await_cleared

PATIENCE = 60.0  # s, for the desired deployment to be complete
_TROUBLED = 300.0  # s; Flink may start for 120 s what gave no answer
_POLL = 0.03  # s, at first; later 3% of the time waited, as each answer takes the servers' processor time
_LONGEST_POLL = 0.15  # s
_BUSY = 409  # another operation, such as one of the reconciler, is running


@dataclass(frozen=True)
class Outcome:
    """One round.  ``point`` is where the server died; ``wrong`` says what was not as it should be."""

    change: str
    number: int
    point: str
    killed: bool
    accepted: bool
    wrong: str
    seconds: float


@dataclass
class Trial:
    """Two sites, one store, and one composition that is changed again and again.

    ``note`` is called after each round; ``program`` is the module of a server that is not killed at a point;
    ``patience`` is the time for the desired deployment to be complete, s.
    """

    places: Mapping[str, Place]
    programs: Programs
    directory: Path
    seed: int
    note: Callable[[Outcome], None] = lambda outcome: None
    program: str = "speck.cli"
    patience: float = PATIENCE
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions = versions(self.programs)
        self.state: str | None = None
        self.random = random.Random(self.seed)
        self._stores = 0
        self._revision: int | None = None
        self.store = self.directory / "store"
        self._report = self.directory / "report"
        self._expected: list[str] = []
        self._count = 0
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sites = self.directory / "sites.yaml"
        sites = {
            name: {"spe_address": each.engine.address, "broker_address": each.broker.address, **each.known}
            for name, each in self.places.items()
        }
        self._sites.write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")
        self.probe = Probe(self.places)
        self._new_store()

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.probe.close()

    # --- one round

    def round(self, target: str | None, number: int) -> Outcome:
        """Change to ``target`` (``None``: delete) while the server dies at this point (0: does not)."""
        self._report.unlink(missing_ok=True)
        counted = Counted(number, self.random.randrange(1 << 30), self._report)

        def die() -> tuple[bool, bool]:
            with self._server(counted) as server:
                accepted = self._ask(server.client(), target)
                self._await_death_or_end(server)
                return server.killed, accepted

        return self.judged(target, number, die, lambda: self.points()[-1] if number else "")

    def timed_round(self, target: str | None, moments: Sequence[float]) -> Outcome:
        """Change to ``target`` and kill after the first number of seconds; then each that recovers."""

        def die() -> tuple[bool, bool]:
            accepted = False
            for number, seconds in enumerate(moments):
                with self._server() as server:
                    timer = threading.Timer(seconds, server.kill)
                    timer.start()
                    if number == 0:
                        accepted = self._ask(server.client(), target)
                    timer.join()
            return True, accepted

        return self.judged(target, 0, die, lambda: "after " + ", ".join(f"{each:.2f} s" for each in moments))

    def troubled_round(self, target: str | None, trouble: AbstractContextManager[None]) -> Outcome:
        """Change to ``target`` while there is trouble, and again when there is none."""

        def change() -> tuple[bool, bool]:
            with self._server() as server:
                client = _there(server.client())
                with trouble:
                    self._ask(client, target)
                    self._await_idle(client, None, _TROUBLED)
                self._insist(client, target)
            return False, True

        return self.judged(target, 0, change, lambda: "trouble")

    def _insist(self, client: Client, target: str | None) -> None:
        """Ask again until it has succeeded."""
        deadline = time.monotonic() + _TROUBLED
        while target is not None or client.compositions():
            operation = self._request(client, target, wait=_TROUBLED)
            if operation["state"] == "succeeded":
                return
            if time.monotonic() > deadline:
                raise _Wrong(f"asked again and again, it {operation['state']}: {operation}")

    def come_to(self, state: str | None) -> None:
        """Change to this version without a kill, if it is not there already."""
        while self.state != state:
            self.round(FIRST if self.state is None else state, 0)

    def points(self) -> list[str]:
        """The names of the points that the last :meth:`round` passed."""
        return self._report.read_text(encoding="utf-8").splitlines()

    def judged(
        self,
        target: str | None,
        number: int,
        die: Callable[[], tuple[bool, bool]],
        point: Callable[[], str],
    ) -> Outcome:
        """Have something done to a change to ``target``, then look what is left.

        ``die`` answers whether the server was killed, and whether it had accepted the change.
        """
        started = time.monotonic()
        change = f"{self.state or 'nothing'} -> {target or 'nothing'}"
        killed = accepted = False
        wrong = ""
        try:
            before = self._revision
            killed, accepted = die()
            self._recovered(target, before, accepted)
        except (_Wrong, RuntimeError, SpeckError) as error:
            wrong = f"{error}"
        taken = time.monotonic() - started
        outcome = Outcome(change, number, point(), killed, accepted, wrong, taken)
        self.outcomes.append(outcome)
        self.note(outcome)
        if wrong:
            self._start_over(target)
        return outcome

    def _recovered(self, target: str | None, before: int | None, accepted: bool) -> None:
        """A plain server on what is left: what was accepted comes true, what was not changed nothing."""
        with self._server() as server:
            client = _there(server.client())
            taken = self._await_idle(client, before) != before if target else self._is_gone(client)
            if accepted and not taken:
                raise _Wrong("what was accepted is forgotten")
            if not taken:
                self._must_be(self.state, client)
                self._do(client, target)
            self._became(target)
            self._must_be(target, client)
            self._revision = self._await_idle(client, None) if target else None

    def _server(self, counted: Counted | None = None) -> Served:
        log = self.directory / "serve.log"
        return Served(self.store, self._sites, ROOT, log, counted, program=self.program)

    def _ask(self, client: Client | None, target: str | None) -> bool:
        """Have the change accepted; answers whether the server said so before it died."""
        try:
            if client is None:
                return False
            self._request(client, target, wait=0)
        except ServerError:
            return False
        return True

    def _request(self, client: Client, target: str | None, wait: float) -> dict[str, object]:
        begun = time.monotonic()
        while True:
            try:
                if target is None:
                    return client.delete_composition(NAME, wait=wait)
                former = self._former(client, target)
                if former is not None:
                    return client.rollback(NAME, former, wait=wait, message=target)
                text = self.versions[target].text(self.programs.engine)
                return client.apply(text, NAME, wait=wait, message=target)
            except RequestRefused as error:
                if error.status != _BUSY or time.monotonic() > begun + self.patience:
                    raise
            time.sleep(_poll(begun))

    def _former(self, client: Client, target: str) -> int | None:
        """The revision to roll back to, where the change is the way back; revisions tell their version."""
        if target != FIRST or not any(each["name"] == NAME for each in client.compositions()):
            return None
        *before, last = client.revisions(NAME)
        same = [int(each["number"]) for each in before if each["message"] == target]
        return same[-1] if same and last["message"] != target else None

    def _do(self, client: Client, target: str | None) -> None:
        operation = self._request(client, target, wait=self.patience)
        if operation["state"] != "succeeded":
            raise _Wrong(f"applied again, it {operation['state']}: {operation}")

    def _await_death_or_end(self, server: Served) -> None:
        client = server.client()
        begun = time.monotonic()
        while not server.await_death(_poll(begun)) and time.monotonic() < begun + self.patience:
            with suppress(ServerError):
                if client is not None and not any(each["operation"] for each in client.compositions()):
                    break

    def _await_idle(self, client: Client, default: int | None, patience: float | None = None) -> int | None:
        """Wait until no operation is running; returns the revision."""
        begun = time.monotonic()
        patience = self.patience if patience is None else patience
        while time.monotonic() < begun + patience:
            found = [each for each in client.compositions() if each["name"] == NAME]
            if not found:
                return default
            if found[0]["operation"] is None:
                return int(found[0]["revision"])
            time.sleep(_poll(begun))
        raise _Wrong(f"still at work after {patience:g} s")

    def _is_gone(self, client: Client) -> bool:
        """True if the composition was deleted; waits for a deletion whose next try is due."""
        begun = time.monotonic()
        while time.monotonic() < begun + self.patience:
            self._await_idle(client, None)
            if not any(each["deleting"] for each in client.compositions()):
                break
            time.sleep(_poll(begun))
        return not client.compositions()

    # --- what must be

    def _became(self, target: str | None) -> None:
        if target is None:
            self._count = 0
        self.state = target

    def _must_be(self, state: str | None, client: Client) -> None:
        version = self.versions[state] if state else None
        self._await_deployment(version.jobs if version else (), client)
        if version is not None:
            self._passes(version)

    def _await_deployment(self, jobs: Sequence[JobForm], client: Client) -> None:
        """Wait until engines, brokers and the store contain the desired deployment, and nothing else."""
        begun = time.monotonic()
        while True:
            found = faults(self.places, jobs)
            if not found:
                return
            if time.monotonic() > begun + self.patience:
                log = [each["message"] for each in client.events(8)]
                raise _Wrong("; ".join(found) + f"; the log's end: {log}")
            time.sleep(_poll(begun))

    def _passes(self, version: Version) -> None:
        """A message goes through once, is counted on from before, and is marked by this version."""
        self._count += 1
        self._expected.append(f"c,{self._count},{version.mark}")
        self.probe.send("c")
        if not self.probe.await_output(self._expected, self.patience):
            raise _Wrong(f"came out: {self.probe.received[-3:]}, wanted {self._expected[-3:]}")

    # --- after what went wrong

    def _start_over(self, target: str | None) -> None:
        """Clear engines, brokers and store by force, and deploy ``target`` again."""
        for place in self.places.values():
            place.engine.clear()
        for place in self.places.values():
            await_cleared(place)
        self._new_store()
        self._revision = None
        self.state, self._count = None, 0
        self._expected = list(self.probe.received)
        if target is not None:
            with self._server() as server:
                client = _there(server.client())
                self._do(client, target)
                self._became(target)
                self._must_be(target, client)
                self._revision = self._await_idle(client, None)

    def _new_store(self) -> None:
        if self._stores and self.store.exists():  # not if it is still that of another server
            shutil.move(self.store, self.directory / f"wrong-{self._stores}")
        self._stores += 1


class _Wrong(Exception):
    """Something is not as it should be."""


def _poll(begun: float) -> float:
    """The pause (s) of a wait that began at this time."""
    return max(_POLL, min(0.03 * (time.monotonic() - begun), _LONGEST_POLL))


def _there(client: Client | None) -> Client:
    if client is None:
        raise _Wrong("the server does not start on what is left")
    return client
