"""What the REST interface answers."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from speck.core.runtime import Drift
from speck.server.tokens import Role

_KINDS = ("start", "stop", "update", "move", "keep")
_UNIX = {"description": "Unix time, s"}
_PER_SECOND = {"description": "messages/s"}


def _text(description: str = "", **kwargs: Any) -> fields.String:
    return fields.String(metadata={"description": description}, **kwargs)


class ChangeSchema(Schema):
    """One field that differs between what is deployed and what is wanted."""

    field = _text("the field's name")
    before = fields.Raw(allow_none=True, metadata={"description": "its value as deployed"})
    after = fields.Raw(allow_none=True, metadata={"description": "its value as wanted"})


class ActionSchema(Schema):
    """What is to be done with one job."""

    job = _text("the job's name")
    kind = fields.String(validate=validate.OneOf(_KINDS), metadata={"description": "what is done"})
    reason = _text("why")
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})


class WarningSchema(Schema):
    """Something in a composition that is allowed, and may be a mistake."""

    job = _text("the job that it is about", allow_none=True)
    field = _text("the field that it is about", allow_none=True)
    value = fields.Raw(allow_none=True, metadata={"description": "what is written there"})
    line = fields.Integer(allow_none=True, metadata={"description": "of the file, from 1"})
    message = _text("what it is, and what would be right")


class PlanSchema(Schema):
    """The actions from what runs to what is wanted."""

    composition = _text("the composition's name")
    base_revision = fields.Integer(metadata={"description": "the revision it was made from (0: none yet)"})
    restored = fields.Integer(metadata={"description": "of a rollback: the revision that it brings back"})
    counts = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "number of actions, by what is done"},
    )
    actions = fields.List(
        fields.Nested(ActionSchema), metadata={"description": "one for each job, those that stay included"}
    )
    warnings = fields.List(
        fields.Nested(WarningSchema), metadata={"description": "what is allowed, and may be a slip"}
    )
    jobs = fields.List(
        fields.Dict(), metadata={"description": "the jobs as they are to be, those to stop as they are"}
    )


class ProgressSchema(ActionSchema):
    """One action of an operation, and how it went."""

    state = fields.String(
        validate=validate.OneOf(("pending", "running", "done", "failed", "skipped", "waiting", "kept")),
        metadata={"description": "waiting: done by the loop when what it waits for is there"},
    )
    error = _text("what went wrong, if anything did")
    note = _text("what to know of an action that went as it was meant to")
    started = fields.Float(allow_none=True, metadata=_UNIX)
    ended = fields.Float(allow_none=True, metadata=_UNIX)


class _OperationSchema(Schema):
    id = _text("32 hexadecimal digits")
    composition = _text("the composition's name")
    revision = fields.Integer(metadata={"description": "the revision that it brings about"})
    kind = fields.String(
        validate=validate.OneOf(("apply", "rollback", "delete", "heal")),
        metadata={"description": "what was asked for; heal: begun by the loop"},
    )
    author = _text("who asked for it")
    message = _text("why")
    state = fields.String(
        validate=validate.OneOf(("running", "succeeded", "failed", "waiting")),
        metadata={"description": "waiting: ended, nothing failed, and something is done later by the loop"},
    )
    started = fields.Float(metadata=_UNIX)
    ended = fields.Float(allow_none=True, metadata=_UNIX)
    error = _text("what went wrong with it as a whole, if anything did")
    warnings = fields.List(fields.String(), metadata={"description": "of the file that was applied"})
    left_behind = fields.List(
        fields.String(), metadata={"description": "addresses of engines and brokers that were not asked"}
    )
    engine_calls = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "calls made to engines, by method"},
    )


class OperationSchema(_OperationSchema):
    """One apply or delete at work, or ended."""

    actions = fields.List(
        fields.Nested(ProgressSchema), metadata={"description": "one for each job, and how far it is"}
    )


class OperationSummarySchema(_OperationSchema):
    """An operation in a list."""

    counts = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "number of actions, by how far they are"},
    )


class SessionSchema(Schema):
    """A persistent session at a broker."""

    broker = _text("the broker's address")
    name = _text("the MQTT client id")
    topic = _text("what it is subscribed to")


class LeftCopySchema(Schema):
    """A copy that was left behind at an engine out of reach."""

    address = _text("the engine's")
    attempt = fields.Integer(metadata={"description": "number of the attempt that it is"})


class LeftoverSchema(Schema):
    """What was left behind at an engine or a broker out of reach, and is ended when it answers."""

    kind = fields.String(validate=validate.OneOf(("copy", "session")), metadata={"description": "what it is"})
    job_name = _text("the job that it was of")
    composition = _text("the composition that the job belonged to")
    address = _text("the engine's, or the broker's")
    site = _text("of the inventory, or the address")
    attempt = fields.Integer(allow_none=True, metadata={"description": "of a copy: its number"})
    session = _text("its name; of a copy, of the one through which it reads")
    fenced = fields.Boolean(
        metadata={"description": "whether the broker knows that the copies which were left may not read"}
    )


class JobViewSchema(Schema):
    """A job, wanted and as last observed."""

    job_name = _text("the job's name")
    composition = _text("the composition that it belongs to")
    wanted = fields.String(
        validate=validate.OneOf(("running", "stopped")), metadata={"description": "what is asked for"}
    )
    state = _text("as its engine said, or pending, lost or unknown")
    observed_at = fields.Float(metadata=_UNIX)
    message = _text("the engine's own words")
    error = _text("what went wrong last in SpecK's own work on it")
    drift = fields.String(
        allow_none=True,
        validate=validate.OneOf([each.value for each in Drift]),
        metadata={"description": "how it differs from what is wanted, as the last round of the loop saw it"},
    )
    drift_message = _text("what was seen of it")
    drift_since = fields.Float(allow_none=True, metadata=_UNIX)
    waits = _text("why that is not mended now")
    next_try = fields.Float(allow_none=True, metadata=_UNIX)
    up_to_date = fields.Boolean(metadata={"description": "whether it runs in the form that is wanted"})
    attempt = fields.Integer(
        allow_none=True, metadata={"description": "number of the attempt that runs; grows with each start"}
    )
    job = fields.Dict(allow_none=True, metadata={"description": "its fields"})
    sessions = fields.List(
        fields.Nested(SessionSchema), metadata={"description": "those that are kept for it at brokers"}
    )
    left_behind = fields.List(
        fields.Nested(LeftCopySchema), metadata={"description": "copies that are stopped when they can be"}
    )
    metrics = fields.Dict(
        allow_none=True, metadata={"description": "rates (rows/s) and more, as far as its engine tells"}
    )


class JobRatesSchema(Schema):
    """What a job does now; null: its engine does not tell, or has not told yet."""

    job_name = _text("the job's name")
    composition = _text("the composition that it belongs to")
    site = _text("of the inventory", allow_none=True)
    source_topic = _text("what it reads")
    sink_topic = _text("what it writes")
    observed = fields.Float(allow_none=True, metadata=_UNIX)
    input_rate = fields.Float(allow_none=True, metadata=_PER_SECOND)
    output_rate = fields.Float(allow_none=True, metadata=_PER_SECOND)
    waiting = fields.Integer(
        allow_none=True,
        metadata={"description": "messages that the job's reader holds and the job has not worked on yet"},
    )
    work_seconds = fields.Float(
        allow_none=True,
        metadata={"description": "how long the last batch (Spark) or checkpoint (Flink) took, s"},
    )
    error = _text("why the engine told nothing newer", allow_none=True)


class RatesSchema(Schema):
    """What all jobs do now."""

    observed = fields.Float(
        allow_none=True, metadata={"description": "the newest of the jobs' (Unix time, s)"}
    )
    jobs = fields.List(fields.Nested(JobRatesSchema))


class CountsSchema(Schema):
    """How many jobs differ from the revision before."""

    added = fields.Integer(metadata={"description": "jobs that it has and the other has not"})
    removed = fields.Integer(metadata={"description": "jobs that the other has and it has not"})
    changed = fields.Integer(metadata={"description": "jobs of which a field differs"})


class _RevisionSchema(Schema):
    number = fields.Integer(metadata={"description": "from 1"})
    at = fields.Float(metadata=_UNIX)
    author = _text("who asked for it")
    message = _text("why")
    restored = fields.Integer(
        allow_none=True, metadata={"description": "the revision that a rollback brought back"}
    )
    changes = fields.Nested(CountsSchema, metadata={"description": "against the revision before"})


class RevisionSchema(_RevisionSchema):
    """An accepted version of a composition."""

    jobs = fields.Integer(metadata={"description": "number of wanted jobs"})


class RevisionViewSchema(_RevisionSchema):
    """An accepted version of a composition, in full."""

    jobs = fields.List(fields.Dict(), metadata={"description": "each with its fields"})


class JobDifferenceSchema(Schema):
    """A job that differs between two revisions."""

    job = _text("the job's name")
    kind = fields.String(
        validate=validate.OneOf(("added", "removed", "changed")), metadata={"description": "how"}
    )
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})


class DifferenceSchema(Schema):
    """What differs between two revisions of a composition."""

    composition = _text("the composition's name")
    before = fields.Integer(metadata={"description": "number of a revision (0: before the first)"})
    after = fields.Integer(metadata={"description": "number of a revision"})
    counts = fields.Nested(CountsSchema)
    jobs = fields.List(fields.Nested(JobDifferenceSchema), metadata={"description": "those that differ"})


class _CompositionSchema(Schema):
    name = _text("its name")
    revision = fields.Integer(metadata={"description": "number of the last one"})
    deleting = fields.Boolean(metadata={"description": "whether it is being deleted"})
    operation = _text("the operation at work on it", allow_none=True)


class CompositionSummarySchema(_CompositionSchema):
    """A composition in a list."""

    jobs = fields.Integer(metadata={"description": "number of wanted jobs"})


class CompositionViewSchema(_CompositionSchema):
    """A composition with its jobs and revisions."""

    jobs = fields.List(fields.Nested(JobViewSchema), metadata={"description": "wanted and real"})
    revisions = fields.List(fields.Nested(RevisionSchema), metadata={"description": "those that are kept"})


class _ReachedSchema(Schema):
    address = _text("as the inventory has it")
    reached = fields.Boolean(metadata={"description": "whether it answered just now"})
    error = _text("why not")


class EngineViewSchema(_ReachedSchema):
    """An engine of a site."""

    capacity = fields.Dict(allow_none=True, metadata={"description": "its room, used and free"})
    warnings = fields.List(
        fields.String(), metadata={"description": "what is wrong with how it is logged in to"}
    )


class BrokerViewSchema(_ReachedSchema):
    """The broker of a site."""

    warnings = fields.List(
        fields.String(),
        metadata={"description": "what in its limits loses messages, or is wrong with the login"},
    )


class UplinkViewSchema(Schema):
    """A site's link to the others, as the inventory has it; null: not told there."""

    bandwidth = fields.Float(allow_none=True, metadata={"description": "bit/s"})
    latency = fields.Float(allow_none=True, metadata={"description": "one way, ms"})


class SiteViewSchema(Schema):
    """A site of the inventory, or a broker of none, and whether it can be reached now."""

    name = _text("the site's name, or that of a broker that belongs to no site")
    engines = fields.List(
        fields.Nested(EngineViewSchema),
        metadata={"description": "its engines; none: it is a broker that belongs to no site"},
    )
    broker = fields.Nested(BrokerViewSchema, metadata={"description": "its broker"})
    uplink = fields.Nested(UplinkViewSchema, metadata={"description": "its link to the others"})


class ComplaintSchema(Schema):
    """One thing that is wrong with an engine or a broker."""

    message = _text("what is wrong")
    remedy = _text("what mends it (empty: the message says)")


class CheckupSchema(Schema):
    """An engine or a broker of the inventory, as it was found just now."""

    site = _text("the site's name, or that of a broker that belongs to no site")
    role = fields.String(
        validate=validate.OneOf(("engine", "broker")), metadata={"description": "engine or broker"}
    )
    address = _text("of the engine or broker")
    reached = fields.Boolean(metadata={"description": "whether it answered just now"})
    version = _text("in its own words; empty where it does not tell")
    limits = fields.Dict(keys=fields.String(), metadata={"description": "by name; memory is bytes"})
    clock_ahead = fields.List(
        fields.Float(),
        allow_none=True,
        metadata={
            "description": "by how much its clock is ahead of the server's: from, to, in s; null: not told"
        },
    )
    wrong = fields.List(
        fields.Nested(ComplaintSchema), metadata={"description": "what is wrong; empty: nothing"}
    )


class LogSchema(Schema):
    """The last lines that an engine has of a job."""

    job_name = _text("the job's name")
    address = _text("of the engine")
    observed_at = fields.Float(metadata={"description": "when it was asked (Unix time, s)"})
    attempt = fields.Integer(metadata={"description": "the attempt of which the lines are"})
    about = _text("where the lines come from, and what cannot be had")
    lines = fields.List(fields.String(), metadata={"description": "the newest last"})


class EventSchema(Schema):
    """A line of the audit log."""

    at = fields.Float(metadata=_UNIX)
    kind = _text("accepted, intended, or what came of it: started, stopped, failed, skipped, succeeded, ...")
    message = _text("what happened")
    composition = _text("the composition that it is about, if any")
    job = _text("the job that it is about, if any")
    operation = _text("the operation that it belongs to, if any")
    author = _text("who asked for what this belongs to")
    cause = _text("why, in the words of who asked")


class OwnerSchema(Schema):
    """Who asks, and what the token that was shown is good for."""

    name = _text("whose token it is; empty where tokens have no names, or none is asked for")
    role = fields.String(
        validate=validate.OneOf([each.value for each in Role]),
        metadata={"description": "read: looks only; write: changes things too"},
    )


class HealthSchema(Schema):
    """That all is well."""

    status = fields.String(validate=validate.Equal("ok"), metadata={"description": "always ok"})
    store = _text("what keeps the store from being written, if anything does")


class FindingSchema(Schema):
    """One thing that is wrong with the store."""

    what = _text("the record, or the code, that it is about")
    message = _text("what is wrong with it")


class ProblemSchema(Schema):
    """An error (RFC 9457)."""

    type = _text("about:blank: the status says it all")
    title = _text("the status in words")
    status = fields.Integer(metadata={"description": "the HTTP status"})
    detail = _text("what is wrong, in one line")
    faults = fields.List(
        fields.Nested(WarningSchema), metadata={"description": "every fault of what was sent"}
    )
