"""The schemas of the loop that adapts placements."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.core.adaptation import Decision, StepOutcome, Trigger
from speck.server.api.schemas.fields import UNIX, text

MODES = ("advise", "auto", "off")
STATES = ("off", "advising", "watching", "moving", "judging", "paused")


def _time(description: str) -> fields.Float:
    return fields.Float(allow_none=True, metadata={**UNIX, "description": f"{description} (Unix time, s)"})


def _jobs() -> fields.List[str]:
    return fields.List(fields.String(), metadata={"description": "the names of those that move together"})


class AdaptationEntrySchema(Schema):
    """A decision, and its reason; the same one several times in a row is one entry."""

    at = fields.Float(metadata=UNIX | {"description": "the last time (Unix time, s)"})
    since = fields.Float(metadata=UNIX | {"description": "the first time in a row (Unix time, s)"})
    repeated = fields.Integer(metadata={"description": "how often in a row"})
    decision = fields.String(
        validate=validate.OneOf([each.value for each in Decision]),
        metadata={"description": "back: a step is reverted"},
    )
    trigger = fields.String(
        validate=validate.OneOf([each.value for each in Trigger]), metadata={"description": "its cause"}
    )
    reason = text("the reason")
    jobs = _jobs()
    source = text("the site that they leave; empty: the decision is about no step")
    target = text("the site that they move to; empty: as of `source`")
    gain = fields.Float(
        allow_none=True, metadata={"description": "the predicted fall of the objective, as a share of it"}
    )
    operation = text("the id of the operation that carried it out; empty: none")


class AdaptationStepSchema(Schema):
    """A step: a group of jobs that the loop moved, its prediction, and what became of it."""

    at = fields.Float(metadata=UNIX)
    due = fields.Float(metadata=UNIX | {"description": "judged from then on (Unix time, s)"})
    jobs = _jobs()
    source = text("the site that they left")
    target = text("the site that they moved to")
    objective = fields.Float(allow_none=True, metadata={"description": "before it"})
    predicted = fields.Float(allow_none=True, metadata={"description": "the objective after it"})
    age_p95 = fields.Float(
        allow_none=True, metadata={"description": "95th percentile of the age of results before it, s"}
    )
    revision = fields.Integer(metadata={"description": "the one that it made (0: not begun)"})
    operation = text("the id of its operation; empty: not begun")
    outcome = fields.String(
        validate=validate.OneOf([each.value for each in StepOutcome]),
        metadata={"description": "superseded: by an apply of a user"},
    )
    windows = fields.Integer(metadata={"description": "number of evaluations"})
    good = fields.Integer(metadata={"description": "evaluations that met the prediction"})
    back = fields.Boolean(metadata={"description": "true if it reverts an earlier step"})


class BanSchema(Schema):
    """A group that may not move to a site for some time."""

    jobs = _jobs()
    target = text("the site")
    until = fields.Float(metadata=UNIX)
    times = fields.Integer(metadata={"description": "how often it was banned there; each time for longer"})
    reason = text("the reason")


class AdaptationSummarySchema(Schema):
    """The loop's state of one composition."""

    composition = text("its name")
    mode = fields.String(
        validate=validate.OneOf(MODES), metadata={"description": "`placement.mode` of its last revision"}
    )
    state = fields.String(
        validate=validate.OneOf(STATES),
        metadata={"description": "off: the server runs no loop, or the mode is off"},
    )
    revision = fields.Integer(metadata={"description": "the last one"})
    paused_until = _time("the end of a pause; null: none")
    advises_until = _time(
        "it only advises until then, as it has made its steps of an hour or a day; null: it may move"
    )
    next = _time("the next decision; null: none is due")
    steps_last_hour = fields.Integer(metadata={"description": "steps within the last hour"})
    steps_per_hour = fields.Integer(metadata={"description": "most steps in an hour"})
    steps_last_day = fields.Integer(metadata={"description": "steps within the last day"})
    last = fields.Nested(
        AdaptationEntrySchema, allow_none=True, metadata={"description": "the last decision; null: none yet"}
    )


class AdaptationSchema(AdaptationSummarySchema):
    """The loop's state of one composition, with its decisions, steps and bans."""

    entries = fields.List(
        fields.Nested(AdaptationEntrySchema), metadata={"description": "the last decisions, newest first"}
    )
    steps = fields.List(
        fields.Nested(AdaptationStepSchema), metadata={"description": "of the last day, newest first"}
    )
    bans = fields.List(fields.Nested(BanSchema))


class AdaptationsSchema(Schema):
    """The loop that adapts placements."""

    enabled = fields.Boolean(metadata={"description": "false: the server was started with `--adapt 0`"})
    period = fields.Float(metadata={"description": "time between two decisions, s"})
    compositions = fields.List(fields.Nested(AdaptationSummarySchema))
