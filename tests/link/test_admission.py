"""Thousands of agents that connect at once: a simulation of the rule, without a socket."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speck.link.admission import LEAST, LONGEST, WORK, AdmissionControl
from speck.link.dial import OPENING
from speck.link.pauses import FIRST_PAUSE, LONGEST_PAUSE, Pauses

AGENTS = 10_000


@dataclass
class Storm:
    """Agents that connect within a second to a coordinator that works on one thing after the other.

    ``reading`` is its time for a request, and ``greeting`` for the rest of an agent that finds a place, s.
    Of a hundred agents, ``old`` do not know when they are asked to come again.  An agent waits for
    :data:`~speck.link.dial.OPENING`, and the work on it is for nothing if it comes later.
    """

    control: AdmissionControl
    greeting: float
    reading: float
    old: int = 0
    agents: int = AGENTS
    seed: int = 1
    connected: dict[int, float] = field(default_factory=dict)  # the time, s
    most_under_way: int = 0

    def run(self, until: float = 2000.0) -> float:
        """The time at which the last agent is connected, s; or ``until``, if some are not by then."""
        self._random = random.Random(self.seed)
        self._pauses = [Pauses(random=self._random.random) for _ in range(self.agents)]
        self._queue = [(self._random.random(), number, 0.0) for number in range(self.agents)]
        heapq.heapify(self._queue)
        free = 0.0
        while self._queue and free < until:
            at, number, admitted = heapq.heappop(self._queue)
            arrived = admitted or at
            free = max(at, free) + (self.greeting if admitted else self.reading)
            if free - arrived > OPENING:
                if admitted:
                    self.control.ends(free)
                self._come_later(number, free, OPENING, None)
            elif admitted:
                self.control.ends(free)
                self.connected[number] = free
            else:
                self._decide(number, free, arrived)
        return free if len(self.connected) == self.agents else until

    def _decide(self, number: int, now: float, arrived: float) -> None:
        again = self.control.arrives(now)
        self.most_under_way = max(self.most_under_way, self.control.under_way)
        if again is None:
            heapq.heappush(self._queue, (now, number, arrived))
        else:
            self._come_later(number, now, now - arrived, None if number % 100 < self.old else again)

    def _come_later(self, number: int, now: float, lasted: float, again: int | None) -> None:
        heapq.heappush(self._queue, (now + self._pauses[number].after(lasted, again), number, 0.0))


def controlled(places: int) -> AdmissionControl:
    """With this number of places, whatever the time for a greeting."""
    return AdmissionControl(least=places, work=0)


@pytest.mark.parametrize("greeting", [0.0005, 0.002, 0.005, 0.01])
@pytest.mark.parametrize("old", [0, 100])
def test_all_agents_are_back_after_little_more_than_the_work_on_them(greeting: float, old: int) -> None:
    storm = Storm(AdmissionControl(), greeting, greeting / 10, old)
    total = storm.run()
    assert total < (2.5 if old else 1.6) * AGENTS * greeting + 3
    assert storm.control.under_way == 0
    assert old or storm.control.refused < 2 * AGENTS


@pytest.mark.slow("simulates ten thousand agents")
def test_without_a_limit_most_of_the_work_is_for_nothing() -> None:
    limited, unlimited = Storm(AdmissionControl(), 0.01, 0.001), Storm(controlled(AGENTS), 0.01, 0.001)
    assert unlimited.run() > 2 * limited.run()
    assert unlimited.control.refused == 0


def test_agents_of_a_fast_coordinator_are_hardly_refused() -> None:
    storm = Storm(AdmissionControl(), 0.0003, 0.00003)
    storm.run()
    assert storm.control.refused < AGENTS / 4


@settings(max_examples=20, deadline=None)
@given(
    greeting=st.floats(0.0005, 0.03),
    share=st.floats(0.02, 0.2),
    old=st.integers(0, 100),
    agents=st.integers(1, 3000),
    seed=st.integers(0, 1000),
)
def test_all_come_in_whatever_their_versions(
    greeting: float, share: float, old: int, agents: int, seed: int
) -> None:
    storm = Storm(AdmissionControl(), greeting, greeting * share, old, agents, seed)
    assert storm.run() < 4 * agents * greeting + 60
    assert storm.most_under_way <= max(LEAST, WORK / 0.0001)


@given(
    steps=st.lists(st.tuples(st.sampled_from(("arrives", "ends")), st.floats(0, 20)), max_size=200),
    most=st.integers(1, 5),
)
def test_places_and_times_have_bounds(steps: list[tuple[str, float]], most: int) -> None:
    control, now, refused, under_way = controlled(most), 0.0, 0, 0
    for what, seconds in steps:
        now += seconds
        if what == "arrives":
            again = control.arrives(now)
            assert (again is None) == (under_way < most)
            assert again is None or 0 <= again <= LONGEST
            under_way, refused = under_way + (again is None), refused + (again is not None)
        elif under_way:
            control.ends(now)
            under_way -= 1
        assert (control.under_way, control.refused) == (under_way, refused)


def test_the_time_grows_with_the_number_that_was_refused_and_ends_with_it() -> None:
    control = AdmissionControl(least=1, work=0, random=lambda: 0.0)
    assert control.arrives(0) is None
    found = [control.arrives(0) for _ in range(100_000)]
    times = [each for each in found if each is not None]
    assert (times[0], times[1000], max(times)) == (0, 3, LONGEST - 1)
    assert times[-1] == LONGEST / 2  # too many for the longest time: spread over a half of it
    assert control.arrives(LONGEST + 1) == 0


def test_the_time_follows_the_speed_of_the_greetings() -> None:
    """One a tenth of a second, then one a millisecond."""
    control = controlled(1)
    for second in range(25):
        for tenth in range(10):
            control.arrives(second + tenth / 10)
            control.arrives(second + tenth / 10)
            control.ends(second + tenth / 10 + 0.09)
    control.arrives(25.0)
    slow = [control.arrives(25.0) for _ in range(100)][-1]
    for step in range(2000):
        control.ends(25.0 + step / 1000)
        control.arrives(25.0 + step / 1000)
        control.arrives(25.0 + step / 1000)
    control._due = 27.0  # those who were refused before have come
    fast = [control.arrives(27.0) for _ in range(100)][-1]
    assert (slow, fast) == (7, 0)


# --- the pauses of an agent


def test_the_pauses_double_until_a_connection_has_lasted() -> None:
    pauses = Pauses(random=lambda: 1.0)
    assert [pauses.after(0) for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE, LONGEST_PAUSE]
    assert pauses.after(LONGEST_PAUSE + 1) == FIRST_PAUSE
    assert pauses.after(0) == 1.0


def test_an_agent_comes_when_it_is_asked_to() -> None:
    pauses = Pauses(random=lambda: 0.5)
    pauses.after(0)
    pauses.after(0)
    assert pauses.after(0, again=40) == 40.5
    assert pauses.after(0) == 0.75
