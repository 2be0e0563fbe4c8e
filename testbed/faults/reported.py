"""A loss that is allowed, and its number as SpecK reports it: the two must agree."""

from __future__ import annotations

from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.rig import Account, Rig
from testbed.waiting import await_that

_NAME = "given"
_MESSAGES, _RATE = 2000, 100.0  # messages/s; SpecK counts up to 1,000 messages of a session
_WAITING = 200  # messages that wait when their session is left


def give_up(rig: Rig) -> tuple[Account, int]:
    """A job whose reader was stopped by hand is rewired with ``--give-up``.

    Returns the account, and the number of messages that are lost by the events and metrics of SpecK.  Raises
    :class:`RuntimeError` if nothing was lost, so that there is nothing to compare.
    """
    rig.apply(_chain(rig, rig.middle.topic(6)), _NAME)
    before = len(rig.counts)
    with rig.load(_MESSAGES, _RATE, ["in/6"]) as load:
        await_that(lambda: len(rig.counts), lambda count: count > before + 100)
        _stop_reader(rig)
        load.await_more(_WAITING)
        rig.apply(_chain(rig, rig.middle.topic(7)), _NAME, give_up=True)
        load.finish()
        rig.await_arrivals(load, 20.0)
        found = rig.counts.account(load.texts)
    reported = sum(each.total for each in rig.losses.counts() if each.job == "count-6" and each.reason.alarms)
    rig.delete(_NAME)
    if not found.lost:
        raise RuntimeError("no message waited in the session when it was left")
    return found, reported


def _chain(rig: Rig, middle: str) -> str:
    """A Spark job that writes ``middle``, and a Flink job that reads it."""
    edge, link = rig.edge.address, rig.link.address
    count = (FLINK_CODE, "io.speck.flink.jobs.CountByKey")
    return (
        "jobs:\n"
        + job("forward-6", rig.spark.address, (edge, "in/6"), (link, middle), (SPARK_CODE, "upper"))
        + job("count-6", rig.flink.address, (link, middle), (edge, "out/6"), count)
    )


def _stop_reader(rig: Rig) -> None:
    """Stop the reader behind SpecK's back, with a savepoint: all that it processed is acknowledged."""
    (record,) = rig.coordinator.store.attempts("count-6")
    assert record.handle is not None
    rig.coordinator.pool.engine_at("flink", rig.flink.address).stop(record.handle, keep_state=True)
