"""The base class of adapters to brokers: the methods that a binder must have, and defaults for the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from speck.binder.contract import Backlog, Capability, CountFrom, Feed, OwnedSession, capabilities_of
from speck.core.runtime import Checkup
from speck.errors import Rejected


class BrokerBinder(ABC):
    """The adapter to one broker (one address).  A session belongs to one job and outlives its attempts.

    The abstract methods are those of every broker.  A default says what is true where a binder does not know
    better; a method of a :class:`~speck.binder.contract.Capability` is called only if the binder has it.

    A binder may keep the owner of each session at its broker, the identity of a store.  After
    :meth:`take_owner`, its methods for sessions then raise :class:`~speck.errors.SessionOfAnother` for a
    session of another owner, before they change anything; one without an owner becomes this owner's.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """The capabilities of this class: those whose methods it overrides, unless it states others."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the capabilities; raises :class:`TypeError` for a part of one."""
        super().__init_subclass__(**options)
        if "capabilities" not in cls.__dict__:
            cls.capabilities = capabilities_of(cls, BrokerBinder)

    # --- sessions

    @abstractmethod
    def check(self) -> None:
        """Raise a :class:`~speck.errors.BinderError` if the broker cannot be used."""

    @abstractmethod
    def warnings(self) -> list[str]:
        """The limits and settings of the broker that will lose messages, a sentence each."""

    @abstractmethod
    def ensure_session(self, session: str, topic: str) -> None:
        """Create the persistent session if needed, subscribed to this topic filter alone; keep its messages.

        Takes the session over: must not be called while a job reads through it.
        """

    @abstractmethod
    def session_exists(self, session: str) -> bool:
        """True if the broker has the session.  Takes it over, as :meth:`ensure_session`."""

    @abstractmethod
    def delete_session(self, session: str) -> None:
        """Delete the session, its messages and its fence; no error if there is none."""

    @abstractmethod
    def fence(self, session: str, attempt: int) -> None:
        """Store durably that only this attempt, or a newer one, may read through the session."""

    @abstractmethod
    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        """True if the job commits all messages now in its session, and confirms it within ``seconds``.

        May be called while a job reads through the session, and again with the same marker.  ``None`` if the
        job's connector cannot confirm.
        """

    @abstractmethod
    def waiting(self, session: str) -> int:
        """The number of messages in the session; :data:`~speck.core.waiting.MOST_COUNTED`: that or more.

        Takes the session over, as :meth:`ensure_session`.
        """

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

    # --- with a default for brokers without it

    def checkup(self) -> Checkup:
        """Version, limits and clock, and settings that keep jobs from working.

        Starts and stops nothing.  Raises a :class:`~speck.errors.BinderError` if it cannot be asked.
        """
        return Checkup()

    def ensure_topic(self, topic: str, partitions: int | None = None) -> None:
        """Make a topic that a job is to write to, for a broker where a topic has to be made.

        Idempotent; raises :class:`~speck.errors.InvalidInput` for a topic that the broker cannot have.  By
        default, does nothing.  ``partitions`` is given for brokers with ``Capability.PARTITIONS`` alone;
        raises :class:`~speck.errors.Rejected` for a topic that has another number.
        """

    def topic_partitions(self, topic: str) -> int | None:
        """The number of partitions of a topic; ``None`` if there is none.  ``Capability.PARTITIONS``."""
        _lack(self, Capability.PARTITIONS)

    def purge(self) -> None:
        """Delete the messages that every session has passed, where the broker does not do so automatically.

        Called once a minute.  Deletes none that a session has not passed, whatever its age.
        """

    def restore_session(self, session: str, topic: str) -> None:
        """Ensure a session that the broker had before, as :meth:`ensure_session`, which is the default.

        If the broker has lost it, or may have saved it before it was subscribed, all writers are asked to
        send again the messages for this topic filter that they retain: those that were published meanwhile
        reached nobody.  A call after one that failed asks them, too.  Readers drop repetitions.
        """
        self.ensure_session(session, topic)

    def has_lost(self, session: str, topic: str) -> bool:
        """True if the broker had a session with this topic filter and lost it, or may have saved it before.

        Before, that is, it was subscribed.  Then writers may retain messages for it, which nobody can count;
        :meth:`restore_session` asks for them.  One that was deleted is not lost.  By default, the broker
        loses none.  Takes the session over, as :meth:`ensure_session`.
        """
        return False

    def unsaved(self, session: str, topic: str) -> int | None:
        """The number of messages that the broker lost before they reached a session with this topic filter.

        They were acknowledged, and not saved, and are retained by writers at its site that may have ended.
        The number is an upper bound: the job may have processed some of them.  ``None``: it cannot be found
        out.  By default, the broker loses none.  Takes the session over, as :meth:`waiting`.
        """
        return 0

    def stranded(self) -> int | None:
        """The number of messages that the broker may have lost, and that no process sends again.

        Processes that have ended left them on a disk of its site, where no job writes to the broker any more
        or reads from it.  ``None``: it cannot be found out.  By default, the broker loses none.  Takes no
        session over.
        """
        return 0

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        """Name the jobs whose stamps the reader of a session believes, instead of those named before.

        In force for the messages that are published after the call; until a first call, all stamps are
        believed.  The names go with the session.  Takes no session over.  By default, names nobody.
        """

    def readers(self, sessions: Sequence[str]) -> Mapping[str, int] | None:
        """The attempt of the last reader of each session; none for a session without a reader so far.

        ``None`` for a broker that has no record of readers.  Takes no session over.
        """
        return None

    def packet_bytes(self) -> int | None:
        """The largest packet that the broker accepts, in bytes; ``None``: it states no limit."""
        return None

    def dropped(self) -> int | None:
        """The number of messages that the broker dropped because a session was full, since its start.

        Their writers were told that all is well.  ``None``: it does not report it.  Takes no session over.
        """
        return None

    def stored(self) -> int | None:
        """The number of messages that the broker stores for all subscribers; ``None``: it does not report it.

        Takes no session over.
        """
        return None

    def stored_bytes(self) -> int | None:
        """The size of all messages that the broker stores for all subscribers; ``None`` as for ``dropped``.

        No session holds more, so none is full while this is below the broker's limit for a session.
        """
        return None

    # --- owners; by default, the broker keeps none

    def take_owner(self, owner: str) -> None:
        """Act for this owner; called once, before any other method."""

    def claim_session(self, session: str, topic: str) -> None:
        """Raise :class:`~speck.errors.SessionOfAnother` for a session of another owner.

        One that has no owner gets this one.  Takes no session over, and makes none.  A broker that lost its
        records of the session, and would have its reader take it for deleted, gets them again: ``topic`` is
        the filter that the session collects.  A deleted session stays deleted.
        """

    def fenced(self, session: str) -> int:
        """The highest attempt that the session's fence has named, also after its deletion; 0 if unknown."""
        return 0

    def foreign_sessions(self) -> Sequence[OwnedSession]:
        """The sessions of other owners at the broker, without their fences; none without an owner."""
        return ()

    def owned_sessions(self) -> Sequence[OwnedSession]:
        """The sessions at the broker that have an owner, this one's included, by name."""
        return ()

    def adopt_session(self, session: str, former: str) -> None:
        """Make a session of the owner ``former`` this owner's; its reader, messages and fence stay.

        Idempotent; nothing is written for one that is deleted, or that the broker has no record of.  Raises
        :class:`~speck.errors.SessionOfAnother` for one of a third owner.
        """

    # --- of capabilities

    def subscribe(self, topics: Sequence[str]) -> Feed:
        """Subscribe to topic filters, with no session: messages that come without a reader may be lost.

        ``Capability.REPORTS``.
        """
        _lack(self, Capability.REPORTS)

    def send_control(self, session: str, message: bytes, seconds: float) -> None:
        """Send a message to the job that reads through a session; it is void after ``seconds``.

        ``Capability.REPORTS``.
        """
        _lack(self, Capability.REPORTS)

    def send_probe(self, topic: str) -> None:
        """Publish a small message to a topic that is used once; not retained.

        ``Capability.TRACING``, as the two methods below.  Changes nothing that a job uses.
        """
        _lack(self, Capability.TRACING)

    def leave_client(self, client: str) -> None:
        """Register a client of this name at the broker, for a minute at most."""
        _lack(self, Capability.TRACING)

    def forget_client(self, client: str) -> bool:
        """True if the broker knows this client; from now on it does not."""
        _lack(self, Capability.TRACING)

    def behind(self, sessions: Sequence[str]) -> Mapping[str, Backlog]:
        """The backlog of each session, by its name; none for one that the broker does not have.

        Its ``seconds`` may be unknown while the number is known, where finding them out takes long.

        ``Capability.BACKLOG``.  Takes no session over: may be called while jobs read through them.
        """
        _lack(self, Capability.BACKLOG)

    def begin_session(self, session: str, topic: str, start: str) -> None:
        """Ensure a session, as :meth:`ensure_session`; one that the broker does not have begins at ``start``.

        ``start`` is as in :mod:`speck.core.start`; at or after a time, at the first message of that time or
        later.  ``Capability.REPLAY``.
        """
        _lack(self, Capability.REPLAY)

    def count_from(self, topic: str, start: str, session: str = "") -> CountFrom:
        """The number of messages that a session of a topic would have before it which begins at ``start``.

        ``session`` is the present one, if there is any.  ``Capability.REPLAY``.  Takes no session over.
        """
        _lack(self, Capability.REPLAY)


def _lack(binder: BrokerBinder, capability: Capability) -> NoReturn:
    address = str(getattr(binder, "address", ""))
    text = f"binder {type(binder).__name__} has no Capability.{capability.name}"
    raise Rejected(": ".join(filter(None, (address, text))), address=address)
