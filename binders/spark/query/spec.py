"""Specification of a query to start, as plain data between the coordinator and the launched process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from speck.core.job import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpec:
    """One streaming query to start, on a Connect server or in a driver.

    ``path`` and ``entry`` name the job's code, ``arguments`` are its arguments.  ``trigger`` is a Spark
    interval or ``None``, ``output_mode`` one in place of the code's own; ``settings`` are Spark's, of the
    session.  ``split`` is the job's part in a split by keys (:attr:`speck.core.job.Job.split`), empty for
    most.  A ``rehearsal`` does all but start the query.  Fields that may contain a secret are not in
    ``repr``.
    """

    job_name: str
    path: str
    entry: str
    checkpoint: str
    source_format: str
    sink_format: str
    source_options: Mapping[str, str] = field(repr=False)
    sink_options: Mapping[str, str] = field(repr=False)
    arguments: Mapping[str, Scalar] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    trigger: str | None = None
    output_mode: str | None = None
    split: Mapping[str, Scalar] = field(default_factory=dict)
    rehearsal: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, secrets included: for the launched process only."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectQuerySpec(QuerySpec):
    """A query to start on a Connect server.

    ``token``, the files and ``tls`` are those of :class:`~binders.spark.connect.credentials.Keys`;
    ``session`` is the UUID of the session to run in.
    """

    host: str
    port: int
    session: str
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    tls: bool = False


# Settings in which a launched query stores its identity in its session, to be found by the attempt alone.
QUERY_SETTING = "spark.speck.query"
RUN_SETTING = "spark.speck.run"
CHECKPOINT_SETTING = "spark.speck.checkpoint"
# The class that writes the files of a checkpoint, and the connector's own.  Spark's start a process for each
# file, since PySpark has no native library of Hadoop: half of the latency of a micro-batch.
FILE_MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGER = "io.speck.spark.mqtt.CheckpointFileManager"
# The trigger of a query in real time, whose batches end by an order.
TRIGGER_SETTING = "spark.speck.trigger"
# Spark's zone of local times: without it a server's own, so that a moved job would count other days.
TIMEZONE_SETTING = "spark.sql.session.timeZone"
# The numbers in the stamps of what the sink writes (see Attempt).
INCARNATION_SETTING = "spark.speck.incarnation"
ORIGIN_SETTING = "spark.speck.origin"
# The folder in which the sink keeps messages that its broker may not have saved; a remote one is not used.
SPOOL_SETTING = "spark.speck.spool"
