"""The answers about jobs: as observed, their rates, losses and logs, and what was abandoned of them."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from speck.core.runtime import Drift
from speck.observe.losses import LossKind
from speck.server.api.schemas.fields import UNIX, text

_PER_SECOND = {"description": "messages/s"}


class SessionSchema(Schema):
    """A persistent session at a broker."""

    broker = text("the broker's address")
    name = text("the MQTT client id")
    topic = text("the topic that it is subscribed to")


class LeftCopySchema(Schema):
    """A copy that was abandoned at an unreachable engine."""

    address = text("the engine's")
    attempt = fields.Integer(metadata={"description": "number of the attempt that it is"})


class LeftoverSchema(Schema):
    """A copy or session that the store no longer uses, or an orphan: a copy that the store does not name."""

    kind = fields.String(
        validate=validate.OneOf(("copy", "session", "orphan")),
        metadata={
            "description": "copy (an abandoned job at an engine), session (an abandoned one at a broker) or "
            "orphan (a copy that the store does not name, as of the last round)"
        },
    )
    verdict = fields.String(
        validate=validate.OneOf(("terminate", "delete", "adopt", "report")),
        metadata={
            "description": "the treatment: terminate (copies) or delete (sessions) once the address answers, "
            "adopt (becomes the job's attempt), report (nothing is done)"
        },
    )
    job_name = text("the job that it was of")
    composition = text("the composition that the job belonged to; of an orphan: empty if there is none")
    address = text("the engine's, or the broker's")
    site = text("of the inventory, or the address")
    attempt = fields.Integer(
        allow_none=True, metadata={"description": "of a copy or an orphan: its number, if known"}
    )
    session = text("its name; of a copy, of the one through which it reads; of an orphan: empty if unknown")
    fenced = fields.Boolean(
        metadata={
            "description": "true once the broker has the fence that keeps abandoned copies from reading; "
            "of an orphan: false"
        }
    )
    message = text("of an orphan: the observation as text")


class LossSchema(Schema):
    """Messages of a job that were lost, discarded, set aside or dropped as duplicates, for one reason."""

    kind = fields.String(
        validate=validate.OneOf([each.value for each in LossKind]),
        metadata={"description": "its severity; repeated: harmless"},
    )
    reason = text("the reason, in a word or two")
    unit = text("the thing counted: message, row, frame; empty where the phrase names it")
    text = text("the reason as a phrase, which follows the number")
    count = fields.Integer(metadata={"description": "number since the coordinator began"})
    at_least = fields.Boolean(
        metadata={"description": "true if there may be more: the messages of a session were not all counted"}
    )
    first = fields.Float(metadata=UNIX)
    last = fields.Float(metadata=UNIX)
    alarm = fields.Boolean(metadata={"description": "true if it is recent, and more than a repetition"})


_BEHIND = {
    "description": "messages that the source's broker has for the job, even while the job is down; null: not "
    "known (an MQTT broker does not count them)"
}
_BEHIND_SECONDS = {
    "description": "age of the oldest of these messages as they were counted, s; 0 without one; null: not "
    "known"
}


class JobViewSchema(Schema):
    """A job, desired and as last observed."""

    job_name = text("the job's name")
    composition = text("the composition that it belongs to")
    wanted = fields.String(
        validate=validate.OneOf(("running", "stopped")), metadata={"description": "the desired state"}
    )
    state = text("the state at its engine, or pending, lost or unknown")
    observed_at = fields.Float(metadata=UNIX)
    message = text("the engine's own message, behind the reason why `reading` is false")
    reading = fields.Boolean(
        metadata={"description": "false if it runs and no reader has taken its session for 10 s or more"}
    )
    error = text("the last error of SpecK's own work on it")
    drift = fields.String(
        allow_none=True,
        validate=validate.OneOf([each.value for each in Drift]),
        metadata={"description": "its difference from the desired state in the last round of the reconciler"},
    )
    drift_message = text("the observation behind the drift")
    drift_since = fields.Float(allow_none=True, metadata=UNIX)
    waits = text("the reason why it is not healed now")
    next_try = fields.Float(allow_none=True, metadata=UNIX)
    behind = fields.Integer(allow_none=True, metadata=_BEHIND)
    behind_seconds = fields.Float(allow_none=True, metadata=_BEHIND_SECONDS)
    losses = fields.List(
        fields.Nested(LossSchema),
        metadata={"description": "its lost, discarded and repeated messages, the most severe first"},
    )
    up_to_date = fields.Boolean(metadata={"description": "true if it runs in its desired form"})
    attempt = fields.Integer(
        allow_none=True, metadata={"description": "number of the attempt that runs; grows with each start"}
    )
    job = fields.Dict(allow_none=True, metadata={"description": "its fields"})
    sessions = fields.List(fields.Nested(SessionSchema), metadata={"description": "its sessions at brokers"})
    left_behind = fields.List(
        fields.Nested(LeftCopySchema),
        metadata={"description": "abandoned copies, stopped when their engine answers"},
    )
    rollout = text("of a single job, during a roll-out in waves: its wave, and how far it is")
    metrics = fields.Dict(
        allow_none=True,
        metadata={"description": "rates (rows/s) and more, as far as its engine reports them"},
    )


class JobRatesSchema(Schema):
    """The rates of a job; null: its engine does not report it, or has not yet."""

    job_name = text("the job's name")
    composition = text("the composition that it belongs to")
    site = text("of the inventory", allow_none=True)
    source_topic = text("the topic that it reads")
    sink_topic = text("the topic that it writes")
    observed = fields.Float(allow_none=True, metadata=UNIX)
    input_rate = fields.Float(allow_none=True, metadata=_PER_SECOND)
    output_rate = fields.Float(allow_none=True, metadata=_PER_SECOND)
    waiting = fields.Integer(
        allow_none=True,
        metadata={"description": "messages that the job's reader holds and the job has not worked on yet"},
    )
    behind = fields.Integer(allow_none=True, metadata=_BEHIND)
    behind_seconds = fields.Float(allow_none=True, metadata=_BEHIND_SECONDS)
    work_seconds = fields.Float(
        allow_none=True,
        metadata={"description": "how long the last batch (Spark) or checkpoint (Flink) took, s"},
    )
    error = text("the reason why there are no newer rates", allow_none=True)


class RatesSchema(Schema):
    """The rates of all jobs."""

    observed = fields.Float(
        allow_none=True, metadata={"description": "the newest of the jobs' (Unix time, s)"}
    )
    jobs = fields.List(fields.Nested(JobRatesSchema))


def _points(description: str) -> fields.List[Any]:
    point = fields.Float(allow_none=True)
    return fields.List(point, metadata={"description": f"{description}; null: not known"})


class CurvesSchema(Schema):
    """The rates of a job over the last hour, the oldest first."""

    job_name = text("the job's name")
    until = fields.Float(metadata={"description": "time of the last point (Unix time, s)"})
    interval = fields.Float(metadata={"description": "time between two points, s"})
    input_rate = _points("messages/s read")
    output_rate = _points("messages/s written")
    waiting = _points("messages that the job's reader holds and the job has not worked on yet")
    work_seconds = _points("duration of the last batch (Spark) or checkpoint (Flink), s")


class LogSchema(Schema):
    """The last log lines of a job at its engine."""

    job_name = text("the job's name")
    address = text("of the engine")
    observed_at = fields.Float(metadata={"description": "when it was asked (Unix time, s)"})
    attempt = fields.Integer(metadata={"description": "the attempt of which the lines are"})
    about = text("the source of the lines, and its limits")
    lines = fields.List(fields.String(), metadata={"description": "the newest last"})
