"""Jobs in real time: Spark's real-time mode, for plans that work row by row.

A batch has no end until it is over.  One that is interrupted is run again to another end, so each message
needs a stamp that is derived from the message it came from: then the repetitions of both are recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from binders.spark.query.user_code import JobFault
from speck.core.trigger import REAL_TIME

# Writers repeat to a broker that died what they sent in the last 30 s: a batch must be over by then.
BATCH = "20 seconds"

SETTINGS = {
    # Spark has a list of the operators and sinks that it was tested with, without this connector.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # The sources get the commit of a batch when the next begins, so it must have been written.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
}

_ROW_BY_ROW = frozenset(("Project", "Filter", "Generate", "SubqueryAlias", "View", "UnresolvedHint"))
_GENERATORS = frozenset(("explode", "posexplode", "inline", "stack", "json_tuple"))
_GENERATE = re.compile(r"^[ \t:+\-|]*~Generate (?P<name>\w+)", re.MULTILINE)
_EXPECTED = f"expected columns, filters and generators such as explode, or a trigger other than {REAL_TIME!r}"


def partitions(parallelism: int | None) -> int:
    """The task slots that a real-time job holds for as long as it runs."""
    return parallelism or 1


def check_plan(plans: str, nodes: Iterable[str], source: str, python_nodes: Iterable[str]) -> None:
    """Raise :class:`JobFault` unless the plan works row by row.

    ``plans`` are the plans as Spark prints them, ``nodes`` their streaming nodes, with the ``source``'s for
    each time that the messages are read, ``python_nodes`` those with Python functions.
    """
    found = list(nodes)
    python = sorted(set(python_nodes))
    if python:
        raise _fault(f"Python functions ({', '.join(python)}), which return their rows in batches")
    other = next((each for each in found if each not in _ROW_BY_ROW and each != source), None)
    if other is not None:
        raise _fault(f"a node {other}, which does not work row by row")
    if found.count(source) != 1:
        raise _fault(f"{found.count(source)} readings of the messages, of which one is possible")
    unknown = next((each for each in _GENERATE.findall(plans) if each not in _GENERATORS), None)
    if unknown is not None:
        raise _fault(f"the generator {unknown}, whose rows cannot be named after their message")


def _fault(what: str) -> JobFault:
    return JobFault(f"the plan of a job with trigger {REAL_TIME!r} has {what} ({_EXPECTED})")
