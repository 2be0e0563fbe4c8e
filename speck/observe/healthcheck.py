"""Looks at each engine and each broker of an inventory: reached, version, limits, clock, and what is wrong.

What a binder tells is judged here; with a pool of binders of its own it works without a server too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from speck.binder import ENGINE_OF_SCHEME, BrokerBinder, EngineBinder, HealthCheckable, scheme_of
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.core.runtime import Checkup, Complaint
from speck.errors import OutcomeUnknown, SpeckError, Unreachable

MOST_SKEW = 5.0  # s; more, and the times in logs and of events do not fit together

PATIENCE = 50.0  # s, for all answers; below the patience of the command line

_SIDE_BY_SIDE = 32


@dataclass(frozen=True, slots=True)
class Examined:
    """One engine or broker of a site as it was found; ``role`` is ``engine`` or ``broker``.

    ``site`` is the name of the site, or of a broker that belongs to none.
    """

    site: str
    role: str
    address: str
    reached: bool
    found: Checkup

    def to_dict(self) -> dict[str, Any]:
        """As plain data; ``clock_ahead`` is from, to, in s."""
        found = self.found
        return {
            "site": self.site,
            "role": self.role,
            "address": self.address,
            "reached": self.reached,
            "version": found.version,
            "limits": dict(found.limits),
            "clock_ahead": None if found.clock is None else [round(each, 3) for each in found.clock],
            "wrong": [asdict(each) for each in found.complaints],
        }


@dataclass(frozen=True, slots=True)
class _Question:
    """Whom to ask, and how."""

    site: str
    role: str
    address: str
    ask: Callable[[], Checkup]


def examine(inventory: Inventory, pool: BinderPool, patience: float = PATIENCE) -> list[Examined]:
    """Every engine and every broker, site by site; all are asked side by side.  Raises nothing of theirs.

    Brokers that belong to no site come last.

    Of those that do not answer within ``patience`` (s) that is said.
    """
    questions = [each for site in inventory.places() for each in _questions(site, pool)]
    if not questions:
        return []
    threads = ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(questions)), thread_name_prefix="checkup")
    answers = [threads.submit(_examined, each) for each in questions]
    wait(answers, patience)
    threads.shutdown(wait=False, cancel_futures=True)
    return [
        answer.result() if answer.done() and not answer.cancelled() else _overdue(question, patience)
        for question, answer in zip(questions, answers, strict=True)
    ]


def _questions(site: Site, pool: BinderPool) -> Iterator[_Question]:
    for engine in site.engines:
        ask = partial(_ask_engine, pool, engine.spe_address)
        yield _Question(site.name, "engine", engine.spe_address, ask)
    broker = site.broker_address
    yield _Question(site.name, "broker", broker, lambda: broker_checkup(pool.broker(broker)))


def _ask_engine(pool: BinderPool, address: str) -> Checkup:
    return engine_checkup(pool.engine_at(ENGINE_OF_SCHEME.get(scheme_of(address), ""), address))


def _overdue(question: _Question, patience: float) -> Examined:
    error = OutcomeUnknown(f"{question.address} did not answer in {patience:g} s", address=question.address)
    return _unanswered(question, error)


def _unanswered(question: _Question, error: SpeckError) -> Examined:
    found = Checkup(complaints=(failure(error, question.role),))
    return Examined(question.site, question.role, question.address, False, found)


def _examined(question: _Question) -> Examined:
    try:
        found = question.ask()
    except SpeckError as error:
        return _unanswered(question, error)
    skew = clock_complaint(found.clock)
    if skew is not None:
        found = replace(found, complaints=(*found.complaints, skew))
    return Examined(question.site, question.role, question.address, True, found)


def engine_checkup(engine: EngineBinder) -> Checkup:
    """What an engine tells of itself, its room among its limits."""
    room = {name: value for name, value in asdict(engine.capacity()).items() if value is not None}
    told = engine.checkup() if isinstance(engine, HealthCheckable) else Checkup()
    return replace(told, limits={**room, **told.limits})


def broker_checkup(broker: BrokerBinder) -> Checkup:
    """What a broker tells of itself, and what in its limits loses messages."""
    broker.check()
    told = broker.checkup() if isinstance(broker, HealthCheckable) else Checkup()
    lossy = tuple(Complaint(each) for each in broker.warnings())
    return replace(told, complaints=(*told.complaints, *lossy))


def clock_complaint(clock: tuple[float, float] | None) -> Complaint | None:
    """What is wrong with a clock that is ahead by between these (s); ``None``: nothing, or untold.

    Only what is sure is said: that it is off by more than :data:`MOST_SKEW` however its answer is taken.
    """
    if clock is None or (clock[0] <= MOST_SKEW and clock[1] >= -MOST_SKEW):
        return None
    ahead, behind = clock[0] > MOST_SKEW, -clock[1]
    by = f"{clock[0]:.0f} s ahead of" if ahead else f"{behind:.0f} s behind"
    return Complaint(f"its clock is at least {by} this machine's", "set both by NTP (timedatectl shows how)")


_REMEDIES: Mapping[str, str] = {
    "engine": "start it, open its port to this machine, or correct spe_address in the inventory",
    "broker": "start it, open its port to this machine, or correct broker_address in the inventory",
}


def failure(error: SpeckError, role: str) -> Complaint:
    """What is wrong with an engine or a broker that could not be asked."""
    if isinstance(error, Unreachable):
        return Complaint(str(error), _REMEDIES[role])
    if isinstance(error, OutcomeUnknown):
        return Complaint(str(error), "see its own log; the address may be of something else")
    return Complaint(str(error))
