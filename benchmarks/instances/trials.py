"""The trials: each a situation of two instances that share a subscription, and what became of the messages.

A message is *lost* if no member ever received it, *doubled* if both received it, and *late* if the member to
whose session it belongs received it only after it had come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

from benchmarks.instances.member import FOR_EVER, SHARED, Member, await_quiet, await_that, publish
from testbed.servers.mosquitto import MosquittoServer

Figures = dict[str, float | bool]


def spread(broker: MosquittoServer, messages: int) -> Figures:
    """Both members are there all the time."""
    with Member(broker.port, "a") as first, Member(broker.port, "b") as second:
        publish(broker.port, range(messages))
        await_quiet((first, second))
        return {
            "first": len(first.received),
            "second": len(second.received),
            "in_order_within_a_member": _ordered(first.numbers) and _ordered(second.numbers),
        } | account(messages, first, second)


def away(broker: MosquittoServer, messages: int, seconds: float) -> Figures:
    """One member dies with messages in flight, and comes back after a time; its session is kept."""
    first = Member(broker.port, "a")
    with Member(broker.port, "b") as second:
        first.connect(acknowledges=False)
        sent = publish(broker.port, range(messages // 2))
        await_quiet((first, second))
        flying = set(first.numbers)
        first.die()
        sent |= publish(broker.port, range(messages // 2, messages))
        time.sleep(seconds)
        taken_over = len(flying & set(second.numbers))
        missing = messages - len(flying | set(second.numbers))
        seen, back = len(first.received), time.monotonic()
        first.connect(acknowledges=True)
        await_quiet((first, second))
        first.leave()
        again = first.received[seen:]
        return {
            "in_flight": len(flying),
            "in_flight_to_the_other": taken_over,
            "waited_for_the_absent": missing,
            "in_flight_again_to_the_same": len(flying & {each.number for each in again}),
            "in_order_after_the_return": _ordered([each.number for each in again]),
            "late": sum(each.at >= back for each in again),
            "late_by_least": min((each.at - sent[each.number] for each in again), default=0.0),
        } | account(messages, first, second)


def ended(broker: MosquittoServer, messages: int, how: str) -> Figures:
    """One member dies, and its session ends with what is in it: it expires, or is deleted."""
    first = Member(broker.port, "a", expiry=1 if how == "expiry" else FOR_EVER)
    with Member(broker.port, "b") as second:
        first.connect(acknowledges=False)
        publish(broker.port, range(messages))
        await_quiet((first, second))
        flying = len(first.received)
        first.die()
        if how == "expiry":
            time.sleep(4.0)
        else:
            first.delete()
        # The broker would deliver what it kept to a member that creates the session again.
        first.connect(acknowledges=True)
        await_quiet((first, second))
        first.leave()
        done = set(second.numbers) | {each.number for each in first.received[flying:]}
        return {"in_flight": flying, "lost": messages - len(done)}


def joined(broker: MosquittoServer, messages: int) -> Figures:
    """A second member joins while messages wait for the first one."""
    work = 0.01  # s
    with Member(broker.port, "a", works=work, window=1) as first:
        publish(broker.port, range(messages))
        done = len(first.received)
        with Member(broker.port, "b", works=work, window=1) as second:
            await_that(lambda: len(first.received) >= messages)
            return {
                "waiting_when_it_joined": messages - done,
                "of_those_to_the_second": len(second.received),
            }


def slow(broker: MosquittoServer, messages: int) -> Figures:
    """One member takes 20 times as long for a message as the other."""
    first = Member(broker.port, "a", works=0.02, window=1)
    with first, Member(broker.port, "b", works=0.001, window=1) as second:
        publish(broker.port, range(messages))
        await_that(lambda: len(first.received) + len(second.received) >= messages)
        return {
            "to_the_slow": len(first.received),
            "to_the_fast": len(second.received),
            "fast_idle_share": _idle(first, second),
        }


def repeated(broker: MosquittoServer, messages: int) -> Figures:
    """A writer sends all its messages again, as after a crash; a reader drops what it has seen itself."""
    with Member(broker.port, "a") as first, Member(broker.port, "b") as second:
        publish(broker.port, range(messages))
        publish(broker.port, [messages])  # the ring stands elsewhere, as after any message of another writer
        publish(broker.port, range(messages))
        await_quiet((first, second))
        passed = sum(len(set(each.numbers)) for each in (first, second))
        return {"repeated": messages, "passed_on_twice": passed - messages - 1}


def order(broker: MosquittoServer, messages: int) -> Figures:
    """One member is slow: neighbours of the input that come out in the other order, merged by time."""
    with Member(broker.port, "a", works=0.005) as first, Member(broker.port, "b") as second:
        publish(broker.port, range(messages))
        await_that(lambda: len(first.received) + len(second.received) >= messages)
        merged = sorted(first.received + second.received, key=lambda each: each.at)
        return {"overtaken": _overtaken([each.number for each in merged]), "messages": messages}


def removed(broker: MosquittoServer, messages: int) -> Figures:
    """One member is slow, leaves the group, and reads what waits in its session until nothing is left."""
    with Member(broker.port, "a", works=0.02, window=1) as first, Member(broker.port, "b") as second:
        publish(broker.port, range(messages))
        first.unsubscribe()
        waiting = messages // 2 - len(first.received)
        publish(broker.port, range(messages, 2 * messages))
        await_quiet((first, second))
        return {"waiting_when_it_left": waiting, "first": len(first.received)} | account(
            2 * messages, first, second
        )


def restarted(broker: MosquittoServer, messages: int, group: str) -> Figures:
    """Both members are away; the broker is stopped in good order and started, halfway through the messages.

    Then they come back, and subscribe again only after the messages of that time have come.
    """
    members = [Member(broker.port, "a", group=group), Member(broker.port, "b", group=group)]
    for each in members:
        each.connect()
        each.leave()
    publish(broker.port, range(messages))
    broker.stop()
    broker.start()
    publish(broker.port, range(messages, 2 * messages))
    for each in members:
        each.connect(subscribe=False)
    publish(broker.port, range(2 * messages, 3 * messages))
    await_quiet(members)
    for each in members:
        each.leave()
        each.connect()
    publish(broker.port, range(3 * messages, 4 * messages))
    await_quiet(members)
    for each in members:
        each.leave()
    had = {number // messages: 0 for number in range(0, 4 * messages, messages)}
    for number in set().union(*(each.numbers for each in members)):
        had[number // messages] += 1
    names = ("before", "while_away", "back", "subscribed_again")
    return {f"lost_{name}": messages - had[number] for number, name in enumerate(names)}


def account(messages: int, *members: Member) -> Figures:
    """The lost and the doubled ones of this number of messages."""
    had = [set(each.numbers) for each in members]
    distinct = set().union(*had)
    return {"lost": messages - len(distinct), "doubled": sum(map(len, had)) - len(distinct)}


def _ordered(numbers: list[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


def _overtaken(numbers: list[int]) -> int:
    """The messages that come after one with a higher number."""
    highest, found = -1, 0
    for number in numbers:
        found += number < highest
        highest = max(highest, number)
    return found


def _idle(slow_one: Member, fast: Member) -> float:
    """The share of the time in which the fast member had nothing to do, while the slow one had."""
    begin = min(each.received[0].at for each in (slow_one, fast))
    end = slow_one.received[-1].at
    return max(0.0, (end - fast.received[-1].at) / (end - begin))


TRIALS: dict[str, Callable[[MosquittoServer, int], Figures]] = {
    "spread": spread,
    "away": lambda broker, messages: away(broker, messages, 5.0),
    "expired": lambda broker, messages: ended(broker, messages, "expiry"),
    "deleted": lambda broker, messages: ended(broker, messages, "deletion"),
    "joined": joined,
    "slow": slow,
    "repeated": repeated,
    "order": order,
    "removed": removed,
    "restarted": lambda broker, messages: restarted(broker, messages, SHARED),
    "restarted_alone": lambda broker, messages: restarted(broker, messages, ""),
}
