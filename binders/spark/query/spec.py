"""What a launched process is ordered to start, as plain data between it and the coordinator."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from speck.core.job import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpec:
    """One streaming query to start, wherever it is started from.

    ``path`` and ``entry`` name the job's code, ``arguments`` what it is called with.  ``trigger`` is a Spark
    interval or ``None``; ``settings`` are Spark's of the session.  In a ``rehearsal`` all is done but the
    start.  What may hold a secret is not shown by ``repr``.
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
    rehearsal: bool = False

    def to_dict(self) -> dict[str, object]:
        """The orders as they travel; secrets included, so this is for the launched process alone."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOrders(QuerySpec):
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


# What a launched query leaves in the settings of its session, for who only knows the attempt.
QUERY_SETTING = "spark.speck.query"
RUN_SETTING = "spark.speck.run"
CHECKPOINT_SETTING = "spark.speck.checkpoint"
