"""Ends queries between two batches.

A query in micro-batches is between two when its status says so.  One in real time is always in a batch, which
ends by an order to the connector; it gives out nothing more from then on, for a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from binders.spark.connect.grpc_client import ConnectClient, Query, ServerRefused
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.protocol import pb2
from binders.spark.query.spec import TRIGGER_SETTING
from binders.spark.query.text import is_between_batches
from speck.core.trigger import REAL_TIME

FEEDS = "io.speck.spark.mqtt.RealTimeFeeds"  # of the connector, in the server's process

_ENDING = "ending"


class BatchEnd:
    """Waits for the ends of batches at one server."""

    def __init__(self, client: ConnectClient, probe: ServerProbe) -> None:
        self._client, self._probe = client, probe

    def wait(self, session: str, query: Query, seconds: float) -> bool:
        """Wait for the end of the current batch, at most ``seconds``; False if the query ended.

        A batch that is not over by then is aborted with the query, and repeated from the checkpoint.
        """
        if self._client.settings(session, [TRIGGER_SETTING]).get(TRIGGER_SETTING) == REAL_TIME:
            return self._hold(session, query, seconds)
        for _ in _pauses(seconds):
            status = self._client.query_status(session, query)
            if not status.active:
                return False
            if is_between_batches(status.in_trigger, status.message):
                return True
        return True

    def _hold(self, session: str, query: Query, seconds: float) -> bool:
        for _ in _pauses(seconds):
            if not self._client.query_status(session, query).active:
                return False
            if call(self._client, self._probe, "hold", query.run_id) != _ENDING:
                return True
        return True


def call(client: ConnectClient, probe: ServerProbe, method: str, *texts: str) -> str:
    """The answer of a static method of the connector in the server's process, which a task there calls."""
    arguments = [
        pb2.Expression(literal=pb2.Expression.Literal(string=each)) for each in (FEEDS, method, *texts)
    ]
    function = pb2.Expression(
        unresolved_function=pb2.Expression.UnresolvedFunction(
            function_name="java_method", arguments=arguments
        )
    )
    row = pb2.Relation(range=pb2.Range(start=0, end=1, step=1, num_partitions=1))
    relation = pb2.Relation(project=pb2.Project(input=row, expressions=[function]))
    try:
        return probe.ask(lambda session: client.text(session, relation))
    except ServerRefused as error:
        if "CLASS" not in error.error_class and FEEDS not in str(error):
            raise
        return ""


def _pauses(seconds: float) -> Iterator[None]:
    """Yield at growing intervals, for ``seconds``."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
