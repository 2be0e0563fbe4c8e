"""The contract of every broker binder: a suite to inherit from, for real brokers and for doubles.

A subclass gives the fixtures ``broker`` (a binder of a broker that works), ``absent`` (a binder of an
address where there is none) and ``slow`` (a binder of a broker that works, over a slow wire), and says how to
look at a fence and how to meet trouble.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from speck.binder import Backlog, BrokerBinder, Capability, CountFrom, Feed, OwnedSession
from speck.errors import BinderError, OutcomeUnknown, Rejected, SessionOfAnother, Unreachable
from speck.testing.wire_trouble import Trouble

SESSION = "speck-contract"
OWNER, OTHER = "0a" * 8, "1b" * 8  # identities of stores


Call = Callable[[Any], object]

# By method: a call that asks the broker.
CALLS: dict[str, Call] = {
    "check": lambda broker: broker.check(),
    "ensure_session": lambda broker: broker.ensure_session(SESSION, "contract.in"),
    "session_exists": lambda broker: broker.session_exists(SESSION),
    "delete_session": lambda broker: broker.delete_session(SESSION),
    "fence": lambda broker: broker.fence(SESSION, 1),
    "warnings": lambda broker: broker.warnings(),
    "drained": lambda broker: broker.drained(SESSION, "marker", 0.1),
    "waiting": lambda broker: broker.waiting(SESSION),
    "name_writers": lambda broker: broker.name_writers(SESSION, ["a"]),
    "claim_session": lambda broker: broker.claim_session(SESSION, "contract.in"),
    "fenced": lambda broker: broker.fenced(SESSION),
    "foreign_sessions": lambda broker: take_owner(broker, OWNER).foreign_sessions(),
    "owned_sessions": lambda broker: take_owner(broker, OWNER).owned_sessions(),
    "adopt_session": lambda broker: take_owner(broker, OWNER).adopt_session(SESSION, OTHER),
    "subscribe": lambda broker: broker.subscribe(["contract/report/+"]).receive(),
    "send_control": lambda broker: broker.send_control(SESSION, b"{}", 60),
    "readers": lambda broker: broker.readers([SESSION]),
    "behind": lambda broker: broker.behind([SESSION]),
    "begin_session": lambda broker: broker.begin_session(SESSION, "contract.in", "earliest"),
    "count_from": lambda broker: broker.count_from("contract.in", "earliest"),
    "topic_partitions": lambda broker: broker.topic_partitions("contract.in"),
    "send_probe": lambda broker: broker.send_probe("speck/probe/contract"),
    "leave_client": lambda broker: broker.leave_client("speck-probe-contract"),
    "forget_client": lambda broker: broker.forget_client("speck-probe-contract"),
}

EVERY_CALL = pytest.mark.parametrize("method", list(CALLS))


def need(broker: BrokerBinder, *methods: str) -> None:
    """Skip the test for a binder that has these methods by a default of the contract."""
    for method in methods:
        if getattr(type(broker), method) is getattr(BrokerBinder, method):
            pytest.skip(f"this broker's binder has no {method}")


def need_capability(broker: BrokerBinder, capability: Capability) -> None:
    """Skip the test for a binder without a capability."""
    if capability not in broker.capabilities:
        pytest.skip(f"this broker's binder has no Capability.{capability.name}")


def received(feed: Feed, number: int) -> list[tuple[str, bytes]]:
    """The first messages of a feed, as they arrive."""
    found: list[tuple[str, bytes]] = []
    deadline = time.monotonic() + 30
    while len(found) < number:
        assert time.monotonic() < deadline, f"{len(found)} of {number} messages"
        found += feed.receive()
        time.sleep(0.01)  # a feed is asked, and does not wait
    return found


def take_owner(broker: BrokerBinder, owner: str) -> BrokerBinder:
    """The binder, which acts for this owner from now on."""
    need(broker, "take_owner")
    broker.take_owner(owner)
    return broker


def assert_unusable(broker: BrokerBinder, method: str, *errors: type[BinderError]) -> None:
    """The call raises one of these errors of SpecK, with the address in a message of one line."""
    need(broker, *({method} - BrokerBinder.__abstractmethods__))
    with pytest.raises(errors) as caught:
        CALLS[method](broker)
    assert caught.value.address
    assert caught.value.address in str(caught.value)
    assert "\n" not in str(caught.value)


class BrokerContract(ABC):
    """The contract of :class:`speck.binder.BrokerBinder`."""

    @abstractmethod
    def fenced_attempt(self, broker: BrokerBinder, session: str) -> int | None:
        """The attempt that the session's fence or tombstone names, read without the binder, or ``None``."""

    def named_writers(self, broker: BrokerBinder, session: str) -> list[str] | None:
        """The writers whose stamps the session's reader believes, read without the binder; ``None``: of all.

        Needed for a binder with ``name_writers``.
        """
        raise NotImplementedError

    def have_unread(self, broker: BrokerBinder, session: str, messages: int, seconds: float) -> None:
        """Put messages of this age into the topic ``contract.in``, which a session reads.

        Needed for a binder with ``Capability.BACKLOG``.
        """
        raise NotImplementedError

    @abstractmethod
    def troubled(self, trouble: Trouble) -> AbstractContextManager[BrokerBinder]:
        """A binder with a short timeout, of an address at which a broken server listens."""

    def test_check_of_a_working_broker(self, broker: BrokerBinder) -> None:
        broker.check()

    def test_no_session_at_first(self, broker: BrokerBinder) -> None:
        assert not broker.session_exists(SESSION)

    def test_a_query_for_a_session_creates_none(self, broker: BrokerBinder) -> None:
        broker.session_exists(SESSION)
        assert not broker.session_exists(SESSION)

    def test_a_session_stays_until_deleted(self, broker: BrokerBinder) -> None:
        broker.ensure_session(SESSION, "contract.in")
        assert broker.session_exists(SESSION)
        assert broker.session_exists(SESSION)
        broker.delete_session(SESSION)
        assert not broker.session_exists(SESSION)

    def test_ensure_twice_and_with_another_topic(self, broker: BrokerBinder) -> None:
        broker.ensure_session(SESSION, "contract.in")
        broker.ensure_session(SESSION, "contract.in")
        broker.ensure_session(SESSION, "contract.other")
        assert broker.session_exists(SESSION)

    def test_a_lost_session_is_created_again(self, broker: BrokerBinder) -> None:
        broker.restore_session(SESSION, "contract.in")
        assert broker.session_exists(SESSION)
        broker.restore_session(SESSION, "contract.in")
        assert broker.session_exists(SESSION)

    def test_sessions_are_separate(self, broker: BrokerBinder) -> None:
        broker.ensure_session(SESSION, "contract.in")
        broker.ensure_session(f"{SESSION}-2", "contract.in")
        broker.delete_session(SESSION)
        assert broker.session_exists(f"{SESSION}-2")

    def test_delete_of_none(self, broker: BrokerBinder) -> None:
        broker.delete_session(SESSION)
        broker.delete_session(SESSION)

    def test_fence_is_never_lowered(self, broker: BrokerBinder) -> None:
        for attempt, expected in [(2, 2), (1, 2), (2, 2), (7, 7)]:
            broker.fence(SESSION, attempt)
            assert self.fenced_attempt(broker, SESSION) == expected

    # --- owners

    @pytest.fixture
    def owned(self, broker: BrokerBinder) -> BrokerBinder:
        """The broker with a session of :data:`OWNER`, by a binder that acts for it."""
        take_owner(broker, OWNER)
        broker.ensure_session(SESSION, "contract.in")
        broker.fence(SESSION, 3)
        return broker

    def beside(self, broker: BrokerBinder) -> BrokerBinder:
        """Another binder of the same broker; needed for a binder that keeps owners."""
        raise NotImplementedError

    @pytest.fixture
    def foreign(self, owned: BrokerBinder) -> BrokerBinder:
        """A binder that acts for :data:`OTHER` at the broker of ``owned``."""
        return take_owner(self.beside(owned), OTHER)

    @pytest.mark.parametrize(
        "call",
        [
            lambda broker: broker.ensure_session(SESSION, "contract.in"),
            lambda broker: broker.ensure_session(SESSION, "contract.other"),
            lambda broker: broker.delete_session(SESSION),
            lambda broker: broker.fence(SESSION, 9),
            lambda broker: broker.waiting(SESSION),
            lambda broker: broker.claim_session(SESSION, "contract.in"),
            lambda broker: broker.fenced(SESSION),
        ],
        ids=["ensure_session", "another topic", "delete_session", "fence", "waiting", "claim", "fenced"],
    )
    def test_a_session_of_another_owner_is_refused_and_untouched(
        self, owned: BrokerBinder, foreign: BrokerBinder, call: Call
    ) -> None:
        with pytest.raises(SessionOfAnother, match=f"{SESSION}.*{OWNER}.*{OTHER}"):
            call(foreign)
        assert owned.session_exists(SESSION)
        assert self.fenced_attempt(owned, SESSION) == 3

    def test_foreign_sessions_are_listed_with_owner_and_topics(
        self, owned: BrokerBinder, foreign: BrokerBinder
    ) -> None:
        foreign.ensure_session(f"{SESSION}-2", "contract.in")
        assert list(foreign.foreign_sessions()) == [OwnedSession(SESSION, OWNER, ("contract.in",))]
        assert list(owned.foreign_sessions()) == [OwnedSession(f"{SESSION}-2", OTHER, ("contract.in",))]

    def test_a_session_is_adopted_from_its_owner_while_it_is_read(
        self, owned: BrokerBinder, foreign: BrokerBinder
    ) -> None:
        need(foreign, "adopt_session", "owned_sessions")
        for _ in range(2):
            foreign.adopt_session(SESSION, OWNER)
            found = OwnedSession(SESSION, OTHER, ("contract.in",), 3)
            assert list(foreign.owned_sessions()) == [found]
        assert self.fenced_attempt(owned, SESSION) == 3
        with pytest.raises(SessionOfAnother, match=f"{SESSION}.*{OTHER}.*{OWNER}"):
            owned.fence(SESSION, 9)
        foreign.fence(SESSION, 4)
        assert foreign.session_exists(SESSION)

    def test_a_session_of_a_third_owner_is_not_adopted(
        self, owned: BrokerBinder, foreign: BrokerBinder
    ) -> None:
        need(foreign, "adopt_session", "owned_sessions")
        with pytest.raises(SessionOfAnother, match=f"{SESSION}.*{OWNER}.*{OTHER}"):
            foreign.adopt_session(SESSION, "3" * 16)
        assert [each.owner for each in foreign.owned_sessions()] == [OWNER]

    def test_a_session_without_a_record_is_not_adopted(self, broker: BrokerBinder) -> None:
        need(broker, "adopt_session", "owned_sessions")
        owned = take_owner(broker, OWNER)
        owned.adopt_session(SESSION, OTHER)
        assert owned.owned_sessions() == []
        owned.ensure_session(SESSION, "contract.in")
        owned.fence(SESSION, 3)
        owned.delete_session(SESSION)
        adopting = take_owner(self.beside(broker), OTHER)
        adopting.adopt_session(SESSION, OWNER)
        assert owned.owned_sessions() == []
        assert self.fenced_attempt(broker, SESSION) == 4
        assert not broker.session_exists(SESSION)

    def test_nothing_is_foreign_to_a_binder_without_an_owner(self, owned: BrokerBinder) -> None:
        beside = self.beside(owned)
        assert list(beside.foreign_sessions()) == []

    def test_a_session_without_an_owner_is_adopted(self, broker: BrokerBinder) -> None:
        need(broker, "take_owner")
        broker.ensure_session(SESSION, "contract.in")
        broker.fence(SESSION, 3)
        adopting, other = take_owner(self.beside(broker), OWNER), take_owner(self.beside(broker), OTHER)
        adopting.claim_session(SESSION, "contract.in")
        with pytest.raises(SessionOfAnother, match=OWNER):
            other.claim_session(SESSION, "contract.in")
        assert self.fenced_attempt(broker, SESSION) == 3

    def test_claiming_names_the_owner_and_makes_no_session(self, broker: BrokerBinder) -> None:
        owned = take_owner(broker, OWNER)
        owned.claim_session(SESSION, "contract.in")
        assert owned.foreign_sessions() == []
        assert not broker.session_exists(SESSION)
        with pytest.raises(SessionOfAnother, match=OWNER):
            take_owner(self.beside(broker), OTHER).claim_session(SESSION, "contract.in")

    def test_a_deleted_session_leaves_a_number_above_all_its_attempts(self, broker: BrokerBinder) -> None:
        owned = take_owner(broker, OWNER)
        owned.ensure_session(SESSION, "contract.in")
        owned.fence(SESSION, 3)
        for _ in range(2):
            owned.delete_session(SESSION)
            assert owned.fenced(SESSION) == 4
        owned.ensure_session(SESSION, "contract.in")
        assert self.fenced_attempt(broker, SESSION) == 4  # until an attempt is to read
        owned.fence(SESSION, 1)
        assert self.fenced_attempt(broker, SESSION) == 4
        owned.fence(SESSION, 5)
        assert (self.fenced_attempt(broker, SESSION), owned.fenced(SESSION)) == (5, 5)

    def test_a_deleted_session_has_no_owner(self, owned: BrokerBinder, foreign: BrokerBinder) -> None:
        owned.delete_session(SESSION)
        foreign.ensure_session(SESSION, "contract.in")
        with pytest.raises(SessionOfAnother, match=OTHER):
            owned.ensure_session(SESSION, "contract.in")

    def test_a_session_that_never_existed_leaves_nothing(self, broker: BrokerBinder) -> None:
        broker.delete_session(SESSION)
        assert self.fenced_attempt(broker, SESSION) is None

    def test_writers_are_replaced_and_deleted_with_the_session(self, broker: BrokerBinder) -> None:
        need(broker, "name_writers")
        broker.ensure_session(SESSION, "contract.in")
        assert self.named_writers(broker, SESSION) is None
        broker.name_writers(SESSION, ["b", "a"])
        assert self.named_writers(broker, SESSION) == ["b", "a"]
        broker.name_writers(SESSION, [])
        assert self.named_writers(broker, SESSION) == []
        assert broker.waiting(SESSION) == 0
        broker.delete_session(SESSION)
        assert self.named_writers(broker, SESSION) is None

    def test_control_messages_reach_subscribers(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.REPORTS)
        broker.send_control(SESSION, b"before", 60)  # it does not wait for a reader without a session
        feed = broker.subscribe(["contract/report/+", f"speck/control/{SESSION}"])
        other = broker.subscribe(["speck/control/another"])
        assert feed.receive() == []
        broker.send_control(SESSION, b'{"end":1}', 60)
        broker.send_control(SESSION, b'{"end":2}', 60)
        topic = f"speck/control/{SESSION}"
        assert received(feed, 2) == [(topic, b'{"end":1}'), (topic, b'{"end":2}')]
        assert (feed.receive(), other.receive()) == ([], [])
        for each in (feed, other):
            each.close()
            each.close()

    def test_a_probe_and_a_client_are_seen_once(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.TRACING)
        feed = broker.subscribe(["speck/probe/contract/+"])
        broker.send_probe("speck/probe/contract/1")
        assert received(feed, 1) == [("speck/probe/contract/1", b"")]
        feed.close()
        later = broker.subscribe(["speck/probe/contract/+"])
        assert later.receive() == []  # it is not retained
        later.close()
        assert not broker.forget_client("speck-probe-contract")
        broker.leave_client("speck-probe-contract")
        assert [broker.forget_client("speck-probe-contract") for _ in range(2)] == [True, False]

    def test_a_session_that_was_never_read_has_no_reader(self, broker: BrokerBinder) -> None:
        need(broker, "readers")
        broker.ensure_session(SESSION, "contract.in")
        broker.fence(SESSION, 3)
        assert broker.readers([SESSION, f"{SESSION}-other"]) == {}

    def test_nothing_waits_in_a_new_session_and_in_none(self, broker: BrokerBinder) -> None:
        assert broker.waiting(SESSION) == 0
        assert not broker.session_exists(SESSION)
        broker.ensure_session(SESSION, "contract.in")
        assert broker.waiting(SESSION) == 0
        assert broker.session_exists(SESSION)

    def test_nothing_is_behind_in_a_new_session_and_no_other_is_counted(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.BACKLOG)
        assert broker.behind([]) == {}
        broker.ensure_session(SESSION, "contract.in")
        assert broker.behind([f"{SESSION}-other", SESSION]) == {SESSION: Backlog(0, seconds=0.0)}
        assert broker.session_exists(SESSION)

    def test_the_age_is_that_of_the_oldest_message(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.BACKLOG)
        broker.ensure_session(SESSION, "contract.in")
        self.have_unread(broker, SESSION, 3, 7200.0)
        found = broker.behind([SESSION])[SESSION]
        assert (found.messages, found.deleted) == (3, 0)
        assert found.seconds is not None
        assert 7200.0 <= found.seconds < 3 * 7200.0

    def test_a_session_that_begins_at_a_place_is_like_any_other(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.REPLAY)
        for start in ("earliest", "2026-01-01T00:00:00Z"):
            assert broker.count_from("contract.in", start) == CountFrom(0)
            broker.begin_session(SESSION, "contract.in", start)
            broker.begin_session(SESSION, "contract.in", start)
            assert broker.waiting(SESSION) == 0
            assert broker.session_exists(SESSION)
            assert broker.count_from("contract.in", start, SESSION) == CountFrom(0)

    def test_a_topic_has_the_partitions_that_it_was_made_with(self, broker: BrokerBinder) -> None:
        need_capability(broker, Capability.PARTITIONS)
        assert broker.topic_partitions("contract.in") is None
        for _ in range(2):
            broker.ensure_topic("contract.in", 3)
            broker.ensure_topic("contract.in")
            broker.ensure_session(SESSION, "contract.in")
            assert broker.topic_partitions("contract.in") == 3
        for other in (1, 4):
            with pytest.raises(Rejected, match=rf"'contract.in' has 3 partitions \(expected {other}"):
                broker.ensure_topic("contract.in", other)
        assert broker.topic_partitions("contract.in") == 3

    def test_a_session_without_a_reader_is_not_drained(self, broker: BrokerBinder) -> None:
        broker.ensure_session(SESSION, "contract.in")
        assert not broker.drained(SESSION, "marker", 0.1)

    def test_from_several_threads(self, broker: BrokerBinder) -> None:
        names = [f"{SESSION}-{number % 4}" for number in range(16)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: broker.ensure_session(name, "contract.in"), names))
            list(pool.map(lambda name: broker.fence(name, 1), names))
        assert all(broker.session_exists(name) for name in set(names))

    @EVERY_CALL
    def test_unreachable_broker(self, absent: BrokerBinder, method: str) -> None:
        assert_unusable(absent, method, Unreachable, OutcomeUnknown)

    @EVERY_CALL
    @pytest.mark.parametrize("trouble", list(Trouble), ids=lambda trouble: trouble.value)
    def test_broker_in_trouble(self, trouble: Trouble, method: str) -> None:
        with self.troubled(trouble) as broker:
            assert_unusable(broker, method, BinderError)

    def test_broker_that_is_slow(self, slow: BrokerBinder) -> None:
        slow.check()
        slow.ensure_session(SESSION, "contract.in")
        slow.fence(SESSION, 1)
        assert slow.session_exists(SESSION)
        slow.delete_session(SESSION)
        assert not slow.session_exists(SESSION)

    def test_a_limit_of_packets_is_a_size(self, broker: BrokerBinder) -> None:
        limit = broker.packet_bytes()
        assert limit is None or limit > 0

    def test_close_twice(self, broker: BrokerBinder) -> None:
        broker.close()
        broker.close()
