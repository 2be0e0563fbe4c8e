"""The answers about plans and the operations that carry them out."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.core.code import PartChangeKind
from speck.core.lifecycle import ActionKind, ActionState, OperationKind, OperationState
from speck.core.plan import Destroyed
from speck.core.schedule import StepKind
from speck.server.api.schemas.fields import UNIX, text
from speck.server.api.schemas.figures import FigurePairSchema

_KINDS = [kind.value for kind in ActionKind]


class ChangeSchema(Schema):
    """One field that differs between the deployed job and the desired one."""

    field = text("the field's name")
    before = fields.Raw(allow_none=True, metadata={"description": "its value as deployed"})
    after = fields.Raw(allow_none=True, metadata={"description": "its desired value"})


class PartChangeSchema(Schema):
    """A statement of a file that differs: a function, a class, an import, an assignment."""

    name = text("the name that it binds, or its beginning")
    kind = fields.String(
        validate=validate.OneOf([kind.value for kind in PartChangeKind]),
        metadata={"description": "its change"},
    )
    lines = fields.Integer(metadata={"description": "the number of lines that differ"})
    diff = fields.List(
        fields.String(),
        metadata={"description": "as in a unified diff, with the first such job; for the role write"},
    )


class CodeChangeSchema(Schema):
    """The change of a job's code, by what the job reaches in its file."""

    file = text("the file's name")
    summary = text("the change as text")
    whole = text("the reason why the whole file counts (empty: only what the job reaches)")
    same = fields.Boolean(metadata={"description": "true if the job reaches nothing that changed"})
    parts = fields.List(
        fields.Nested(PartChangeSchema),
        metadata={"description": "the statements that differ (none: the file's statements are not known)"},
    )


class ActionSchema(Schema):
    """One action of a plan."""

    job = text("the job's name")
    kind = fields.String(validate=validate.OneOf(_KINDS), metadata={"description": "the kind of change"})
    reason = text("the reason")
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})
    code = fields.Nested(CodeChangeSchema, metadata={"description": "of a job whose file changed"})
    consequence = text("what it costs, as far as that is known before (empty: nothing)")
    split = fields.Dict(metadata={"description": "of a job of a split by keys: its part"})
    template = text("of a job that `for_each` made: its name with `*` for the site")
    site = text("of a job of a split by keys, or that `for_each` made: its site", allow_none=True)


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
        metadata={"description": "the messages in it (1,000: at least 1,000; null: not counted)"},
    )
    fate = text("the reason why no running copy processes them, and what becomes of them")
    lossless = fields.Boolean(metadata={"description": "false if messages are discarded"})


class DestructionSchema(Schema):
    """One thing that a plan destroys."""

    job = text("the job that it is of")
    kind = fields.String(
        validate=validate.OneOf([kind.value for kind in Destroyed]),
        metadata={"description": "job: permanently stopped; state: deleted; messages: discarded"},
    )
    text = text("the same as text, to follow the job's name")


class UnreachablePlaceSchema(Schema):
    """An engine or a broker that did not answer when the plan was made."""

    kind = fields.String(validate=validate.OneOf(("engine", "broker")), metadata={"description": "its kind"})
    address = text("its address")
    error = text("the reason")
    jobs = fields.List(fields.String(), metadata={"description": "the jobs that wait for it"})
    refuses = fields.Boolean(metadata={"description": "true if it answers, and refuses what the jobs need"})


class ForeignJobSchema(Schema):
    """A job to start that another store runs, or has a session for."""

    job = text("the job's name")
    owner = text("the identity of that store (empty: not known)")
    address = text("the engine that runs its copy (empty: none was found)")
    attempt = text("the id of that copy (empty: not known)")
    broker = text("the broker with its session (empty: none was found)")
    session = text("the name of its session there")


class StepSchema(Schema):
    """One step of the order in which a plan is carried out."""

    number = fields.Integer(metadata={"description": "its place in the list, from 1"})
    kind = fields.String(
        validate=validate.OneOf([each.value for each in StepKind]),
        metadata={
            "description": "broker: the broker answers; prepare: room, code and session, nothing is stopped; "
            "drain: the job processes what waits at its former source; act: its copy is stopped, the next "
            "one started; await_running: the new copy has come up; changed: all jobs are; prune: sessions "
            "and states that earlier changes left are deleted"
        },
    )
    subject = text("the job, broker or composition that it is about")
    needs = fields.List(
        fields.Integer(), metadata={"description": "the numbers of the steps that must be done before"}
    )


class WaveSchema(Schema):
    """Sites that change together."""

    number = fields.Integer(metadata={"description": "from 1"})
    sites = fields.List(fields.String(), metadata={"description": "empty: outside the inventory"})
    jobs = fields.List(fields.String(), metadata={"description": "all jobs at these sites"})


class PlanSchema(Schema):
    """The actions from the deployed jobs to the desired ones."""

    composition = text("the composition's name")
    base_revision = fields.Integer(metadata={"description": "the revision it was made from (0: none yet)"})
    plan = text("of an apply: the id by which it can be applied without its text, for 15 minutes")
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
        metadata={"description": "sessions that jobs leave without processing their messages"},
    )
    foreign = fields.List(
        fields.Nested(ForeignJobSchema),
        metadata={"description": "jobs to start that another store runs; an apply of the plan is refused"},
    )
    unreachable = fields.List(
        fields.Nested(UnreachablePlaceSchema),
        metadata={"description": "engines and brokers of the jobs to act on that do not answer"},
    )
    destroys = fields.List(
        fields.Nested(DestructionSchema),
        metadata={
            "description": "the jobs, state and messages that it destroys (empty: it is not destructive)"
        },
    )
    warnings = fields.List(
        fields.Nested(WarningSchema),
        metadata={"description": "parts of the file that are allowed but may be mistakes"},
    )
    figures = fields.Nested(
        FigurePairSchema,
        allow_none=True,
        metadata={"description": "predicted, if a place is chosen for jobs or topics (null: for none)"},
    )
    jobs = fields.List(
        fields.Dict(),
        metadata={"description": "the jobs in their new form, those to stop in their present one"},
    )
    waves = fields.List(
        fields.Nested(WaveSchema),
        metadata={"description": "only with `wave`: the sites in the order of the roll-out"},
    )
    steps = fields.List(
        fields.Nested(StepSchema),
        metadata={"description": "only with `steps`: the order, each step after those that it needs"},
    )


class ProgressSchema(ActionSchema):
    """One action of an operation, and its progress."""

    state = fields.String(
        validate=validate.OneOf([state.value for state in ActionState]),
        metadata={"description": "waiting: done by the reconciler later, when its condition holds"},
    )
    error = text("the error, if any")
    note = text("a remark on an action that succeeded")
    wave = text("of a roll-out in waves: the wave of the job, such as `wave 2 of 3`")
    started = fields.Float(allow_none=True, metadata=UNIX)
    ended = fields.Float(allow_none=True, metadata=UNIX)


class _OperationSchema(Schema):
    id = text("32 hexadecimal digits")
    composition = text("the composition's name")
    revision = fields.Integer(metadata={"description": "the revision that it creates"})
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
        metadata={"description": "true if messages in sessions that jobs leave may be discarded"}
    )
    atomic = fields.Boolean(
        metadata={"description": "true if it is rolled back when it cannot be applied completely"}
    )
    base_revision = fields.Integer(metadata={"description": "the revision before it (0: none)"})
    waves = fields.List(
        fields.String(), metadata={"description": "the sites that change first, in their order, if any"}
    )
    settle = fields.Float(metadata={"description": "of a roll-out in waves: the time between two, s"})
    wave = fields.Integer(
        metadata={
            "description": "of a roll-out in waves: the number of the one that changes or settles, from 1"
        }
    )
    waits = text("of a roll-out in waves: what the next wave waits for, while a wave settles")
    replaced_by = text("id of the operation that replaced it before its revision was applied, if any")
    engine_calls = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "calls made to engines, by method"},
    )


class OperationSchema(_OperationSchema):
    """One apply or delete, running or ended."""

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
