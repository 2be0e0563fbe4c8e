"""The schemas of the REST interface's answers."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from speck.coordinator.doctor import Finding
from speck.core.lifecycle import ActionKind, ActionState, OperationKind, OperationState
from speck.core.runtime import Drift
from speck.observe.losses import LossKind
from speck.server.tokens import Role

_KINDS = [kind.value for kind in ActionKind]
UNIX = {"description": "Unix time, s"}
_PER_SECOND = {"description": "messages/s"}


def text(description: str = "", **kwargs: Any) -> fields.String:
    return fields.String(metadata={"description": description}, **kwargs)


class ChangeSchema(Schema):
    """One field that differs between the deployed job and the desired one."""

    field = text("the field's name")
    before = fields.Raw(allow_none=True, metadata={"description": "its value as deployed"})
    after = fields.Raw(allow_none=True, metadata={"description": "its desired value"})


class ActionSchema(Schema):
    """One action of a plan."""

    job = text("the job's name")
    kind = fields.String(validate=validate.OneOf(_KINDS), metadata={"description": "the kind of change"})
    reason = text("the reason")
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})
    consequence = text("what it costs, as far as that is known before (empty: nothing)")
    split = fields.Dict(metadata={"description": "of a job of a split by keys: its part"})
    site = text("of a job of a split by keys: its site", allow_none=True)


class WarningSchema(Schema):
    """A part of a composition that is allowed, and may be a mistake."""

    job = text("the job that it is about", allow_none=True)
    field = text("the field that it is about", allow_none=True)
    value = fields.Raw(allow_none=True, metadata={"description": "the value written there"})
    line = fields.Integer(allow_none=True, metadata={"description": "of the file, from 1"})
    message = text("the problem, and a right value")


class UndrainedSessionSchema(Schema):
    """A session with messages that a job leaves."""

    job = text("the job that leaves it")
    broker = text("its broker")
    topic = text("its topic")
    waiting = fields.Integer(
        allow_none=True,
        metadata={"description": "the messages in it (1,000: so many or more; null: not counted)"},
    )
    fate = text("the reason why no running copy processes them, and what becomes of them")
    lossless = fields.Boolean(metadata={"description": "false if messages are given up"})


class PlanSchema(Schema):
    """The actions from the deployed jobs to the desired ones."""

    composition = text("the composition's name")
    base_revision = fields.Integer(metadata={"description": "the revision it was made from (0: none yet)"})
    restored = fields.Integer(metadata={"description": "of a rollback: the revision that it brings back"})
    counts = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "number of actions by kind"},
    )
    actions = fields.List(
        fields.Nested(ActionSchema), metadata={"description": "one for each job, those that stay included"}
    )
    leaves = fields.List(
        fields.Nested(UndrainedSessionSchema),
        metadata={"description": "sessions that jobs leave, whose messages they do not process as they run"},
    )
    warnings = fields.List(
        fields.Nested(WarningSchema), metadata={"description": "things that are allowed, and may be mistakes"}
    )
    jobs = fields.List(
        fields.Dict(),
        metadata={"description": "the jobs in their new form, those to stop in their present one"},
    )


class ProgressSchema(ActionSchema):
    """One action of an operation, and how it went."""

    state = fields.String(
        validate=validate.OneOf([state.value for state in ActionState]),
        metadata={"description": "waiting: done by the reconciler later, when its condition holds"},
    )
    error = text("the error, if any")
    note = text("a remark on an action that succeeded")
    started = fields.Float(allow_none=True, metadata=UNIX)
    ended = fields.Float(allow_none=True, metadata=UNIX)


class _OperationSchema(Schema):
    id = text("32 hexadecimal digits")
    composition = text("the composition's name")
    revision = fields.Integer(metadata={"description": "the revision that it brings about"})
    kind = fields.String(
        validate=validate.OneOf([kind.value for kind in OperationKind]),
        metadata={"description": "the request; heal: begun by the reconciler"},
    )
    author = text("its author")
    message = text("its reason, by the author")
    state = fields.String(
        validate=validate.OneOf([state.value for state in OperationState]),
        metadata={"description": "waiting: ended, nothing failed, and the reconciler does the rest later"},
    )
    started = fields.Float(metadata=UNIX)
    ended = fields.Float(allow_none=True, metadata=UNIX)
    error = text("the error of the operation as a whole, if any")
    warnings = fields.List(fields.String(), metadata={"description": "of the file that was applied"})
    left_behind = fields.List(
        fields.String(), metadata={"description": "addresses of engines and brokers that were not asked"}
    )
    give_up = fields.Boolean(
        metadata={"description": "true if messages in sessions that jobs leave may be given up"}
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

    broker = text("the broker's address")
    name = text("the MQTT client id")
    topic = text("the topic that it is subscribed to")


class LeftCopySchema(Schema):
    """A copy that was left behind at an engine out of reach."""

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
    message = text("of an orphan: the observation in words")


class LossSchema(Schema):
    """Messages of a job that were lost, given up, set aside or dropped as repetitions, for one reason."""

    kind = fields.String(
        validate=validate.OneOf([each.value for each in LossKind]),
        metadata={"description": "how grave it is; repeated: no harm"},
    )
    reason = text("the reason, in a word or two")
    text = text("the reason as a phrase, which follows the number")
    count = fields.Integer(metadata={"description": "messages since the coordinator began"})
    first = fields.Float(metadata=UNIX)
    last = fields.Float(metadata=UNIX)
    alarm = fields.Boolean(metadata={"description": "true if it is recent, and no mere repetition"})


class JobViewSchema(Schema):
    """A job, desired and as last observed."""

    job_name = text("the job's name")
    composition = text("the composition that it belongs to")
    wanted = fields.String(
        validate=validate.OneOf(("running", "stopped")), metadata={"description": "the desired state"}
    )
    state = text("the state at its engine, or pending, lost or unknown")
    observed_at = fields.Float(metadata=UNIX)
    message = text("the engine's own message")
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
    losses = fields.List(
        fields.Nested(LossSchema),
        metadata={"description": "its lost, given up and repeated messages, the gravest first"},
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


class CountsSchema(Schema):
    """The numbers of jobs that differ from the revision before."""

    added = fields.Integer(metadata={"description": "jobs that it has and the other has not"})
    removed = fields.Integer(metadata={"description": "jobs that the other has and it has not"})
    changed = fields.Integer(metadata={"description": "jobs of which a field differs"})


class _RevisionSchema(Schema):
    number = fields.Integer(metadata={"description": "from 1"})
    at = fields.Float(metadata=UNIX)
    author = text("its author")
    message = text("its reason, by the author")
    restored = fields.Integer(
        allow_none=True, metadata={"description": "the revision that a rollback brought back"}
    )
    changes = fields.Nested(CountsSchema, metadata={"description": "against the revision before"})


class RevisionSchema(_RevisionSchema):
    """An accepted version of a composition."""

    jobs = fields.Integer(metadata={"description": "number of desired jobs"})


class RevisionViewSchema(_RevisionSchema):
    """An accepted version of a composition, in full."""

    jobs = fields.List(fields.Dict(), metadata={"description": "each with its fields"})
    placement = fields.Dict(metadata={"description": "the options of placement that are not the defaults"})


class JobDifferenceSchema(Schema):
    """A job that differs between two revisions."""

    job = text("the job's name")
    kind = fields.String(
        validate=validate.OneOf(("added", "removed", "changed")), metadata={"description": "how"}
    )
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})


class DifferenceSchema(Schema):
    """The differences between two revisions of a composition."""

    composition = text("the composition's name")
    before = fields.Integer(metadata={"description": "number of a revision (0: before the first)"})
    after = fields.Integer(metadata={"description": "number of a revision"})
    counts = fields.Nested(CountsSchema)
    placement = fields.List(
        fields.Nested(ChangeSchema), metadata={"description": "the options of placement that differ"}
    )
    jobs = fields.List(fields.Nested(JobDifferenceSchema), metadata={"description": "those that differ"})


class _CompositionSchema(Schema):
    name = text("its name")
    revision = fields.Integer(metadata={"description": "number of the last one"})
    deleting = fields.Boolean(metadata={"description": "true while it is being deleted"})
    operation = text("the operation at work on it", allow_none=True)


class CompositionSummarySchema(_CompositionSchema):
    """A composition in a list."""

    jobs = fields.Integer(metadata={"description": "number of desired jobs"})


class CompositionViewSchema(_CompositionSchema):
    """A composition with its jobs and revisions."""

    jobs = fields.List(fields.Nested(JobViewSchema), metadata={"description": "desired and observed"})
    revisions = fields.List(fields.Nested(RevisionSchema), metadata={"description": "the stored ones"})


class _ReachedSchema(Schema):
    address = text("as the inventory has it")
    reached = fields.Boolean(metadata={"description": "true if it answered just now"})
    error = text("the reason why it was not reached")


class EngineViewSchema(_ReachedSchema):
    """An engine of a site."""

    capacity = fields.Dict(allow_none=True, metadata={"description": "its room, used and free"})
    warnings = fields.List(fields.String(), metadata={"description": "faults of its login"})


class BrokerViewSchema(_ReachedSchema):
    """The broker of a site."""

    warnings = fields.List(
        fields.String(),
        metadata={"description": "limits that lose messages, and faults of its login"},
    )


class UplinkViewSchema(Schema):
    """A site's link to the others, as the inventory has it; null: not given there."""

    bandwidth = fields.Float(allow_none=True, metadata={"description": "to the others, bit/s"})
    downlink = fields.Float(allow_none=True, metadata={"description": "from the others, bit/s"})
    latency = fields.Float(allow_none=True, metadata={"description": "one way, ms"})


class SiteViewSchema(Schema):
    """A site of the inventory, or a broker of none, and whether it can be reached now."""

    name = text("the site's name, or that of a broker that belongs to no site")
    engines = fields.List(
        fields.Nested(EngineViewSchema),
        metadata={"description": "its engines; none: it is a broker that belongs to no site"},
    )
    broker = fields.Nested(BrokerViewSchema, metadata={"description": "its broker"})
    uplink = fields.Nested(UplinkViewSchema, metadata={"description": "its link to the others"})


class ComplaintSchema(Schema):
    """One thing that is wrong with an engine or a broker."""

    message = text("the fault")
    remedy = text("the remedy (empty: the message has it)")
    remark = fields.Boolean(metadata={"description": "true if it may be as intended, and is no fault"})


class DiagnosisSchema(Schema):
    """One finding of the doctor."""

    finding = fields.String(
        validate=validate.OneOf([each.value for each in Finding]), metadata={"description": "its kind"}
    )
    where = text("the job's name, or the address of an engine or broker")
    message = text("the observation")
    remedy = text("what to do")


class CheckupSchema(Schema):
    """An engine or a broker of the inventory, as it was found just now."""

    site = text("the site's name, or that of a broker that belongs to no site")
    role = fields.String(
        validate=validate.OneOf(("engine", "broker")), metadata={"description": "engine or broker"}
    )
    address = text("of the engine or broker")
    reached = fields.Boolean(metadata={"description": "true if it answered just now"})
    version = text("as it reports it; empty if it does not")
    limits = fields.Dict(keys=fields.String(), metadata={"description": "by name; memory is bytes"})
    clock_ahead = fields.List(
        fields.Float(),
        allow_none=True,
        metadata={
            "description": "by how much its clock is ahead of the server's: from, to (s); null: not reported"
        },
    )
    wrong = fields.List(fields.Nested(ComplaintSchema), metadata={"description": "its faults and remarks"})


class LogSchema(Schema):
    """The last lines that an engine has of a job."""

    job_name = text("the job's name")
    address = text("of the engine")
    observed_at = fields.Float(metadata={"description": "when it was asked (Unix time, s)"})
    attempt = fields.Integer(metadata={"description": "the attempt of which the lines are"})
    about = text("the source of the lines, and its limits")
    lines = fields.List(fields.String(), metadata={"description": "the newest last"})


class EventSchema(Schema):
    """A line of the audit log."""

    at = fields.Float(metadata=UNIX)
    kind = text("accepted, intended, or the outcome: started, stopped, failed, skipped, succeeded, ...")
    message = text("the event in one line")
    composition = text("the composition that it is about, if any")
    job = text("the job that it is about, if any")
    operation = text("the operation that it belongs to, if any")
    author = text("the author of the operation")
    cause = text("the reason, by the author")


class OwnerSchema(Schema):
    """The owner of a token, and its role."""

    name = text("whose token it is; empty where tokens have no names, or none is asked for")
    role = fields.String(
        validate=validate.OneOf([each.value for each in Role]),
        metadata={"description": "read: looks only; write: changes things too"},
    )


class HealthSchema(Schema):
    """The sign of life."""

    status = fields.String(validate=validate.Equal("ok"), metadata={"description": "always ok"})
    store = text("the reason why the store cannot be written, if it cannot")


class FindingSchema(Schema):
    """One thing that is wrong with the store."""

    what = text("the record, or the code, that it is about")
    message = text("its fault")


class ProblemSchema(Schema):
    """An error (RFC 9457)."""

    type = text("about:blank: the status says it all")
    title = text("the status in words")
    status = fields.Integer(metadata={"description": "the HTTP status"})
    detail = text("the error in one line")
    faults = fields.List(fields.Nested(WarningSchema), metadata={"description": "every fault of the request"})
