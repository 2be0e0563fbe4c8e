"""The schemas of proposed placements and of policies."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.server.api.schemas import PlanSchema, WarningSchema
from speck.server.api.schemas.fields import UNIX, text
from speck.server.api.schemas.figures import FigurePairSchema, FiguresSchema


class MoveCostSchema(Schema):
    """The cost of carrying a placement out."""

    jobs = fields.Integer(metadata={"description": "jobs with downtime"})
    standstill = fields.Float(metadata={"description": "of the slowest job, s"})
    catch_up = fields.Float(
        allow_none=True, metadata={"description": "of the slowest job, s (null: it never catches up)"}
    )
    state = fields.Float(metadata={"description": "carried between sites, bytes"})
    pays_after = fields.Float(
        allow_none=True, metadata={"description": "time until the gain exceeds the cost, s (null: never)"}
    )


class PlacementStepSchema(Schema):
    """A connected group of jobs that move together; without jobs, of topics that get another home."""

    jobs = fields.List(fields.String(), metadata={"description": "their names"})
    source = text("the site that they leave", data_key="from", attribute="from", allow_none=True)
    to = text("the site that they move to", allow_none=True)
    gain = fields.Float(metadata={"description": "the fall of the objective"})
    standstill = fields.Float(metadata={"description": "s"})
    state = fields.Float(metadata={"description": "carried between sites, bytes"})
    pays_after = fields.Float(allow_none=True, metadata={"description": "s (null: never)"})


class VerdictSchema(Schema):
    """The place of a job, and the reason."""

    job = text("its name")
    source = text("its present site (null: none)", data_key="from", attribute="from", allow_none=True)
    to = text("the site proposed")
    why = text("the reason")
    fixed = fields.Boolean(metadata={"description": "true if no policy may move it"})


class HomeSchema(Schema):
    """Topics without an address, and the site whose broker holds them."""

    topics = fields.List(fields.String(), metadata={"description": "those with a common home"})
    source = text("the present site (null: none)", data_key="from", attribute="from", allow_none=True)
    to = text("the site proposed")


class ComparisonSchema(Schema):
    """The figures of one policy."""

    policy = text("its name")
    figures = fields.Nested(
        FiguresSchema, allow_none=True, metadata={"description": "null: it has no answer"}
    )
    moves = fields.Integer(metadata={"description": "jobs that it would move"})
    seconds = fields.Float(metadata={"description": "processor time that it took"})
    error = text("the reason why it has no answer")


class KnownJobSchema(Schema):
    """The source of the load of a job: that of the least certain of rate, bytes and cost."""

    job = text("its name")
    known = text("measured, declared or assumed")
    value = text("the least certain value: rate, bytes or cost")


class KnownLinkSchema(Schema):
    """The source of the figures of a path between sites."""

    source = text("the site of the engine", data_key="from", attribute="from")
    to = text("the site of the broker")
    known = text("measured, declared or assumed")


class KnownSchema(Schema):
    """The sources of the inputs of a placement."""

    jobs = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        metadata={"description": "number of jobs by measured, declared, assumed"},
    )
    oldest = fields.Float(
        allow_none=True, metadata={"description": "age of the oldest measured value, s (null: there is none)"}
    )
    by_job = fields.List(fields.Nested(KnownJobSchema))
    links = fields.List(fields.Nested(KnownLinkSchema))


class RefusalSchema(Schema):
    """A site that cannot run a job."""

    job = text("its name")
    site = text("the site")
    why = text("the reason")


class ProposalSchema(Schema):
    """A proposed placement: its plan, predicted figures, steps and reasons."""

    id = text("8 hexadecimal digits")
    state = fields.String(
        validate=validate.OneOf(("open", "accepted", "expired")),
        metadata={"description": "open: it can be accepted"},
    )
    operation = text("the operation that accepted it", allow_none=True)
    created = fields.Float(metadata=UNIX)
    until = fields.Float(metadata=UNIX | {"description": "accepted no later than this (Unix time, s)"})
    composition = text("the composition's name")
    base_revision = fields.Integer(metadata={"description": "the revision it was made from (0: none yet)"})
    policy = text("the policy that found it")
    plan = fields.Nested(PlanSchema)
    jobs = fields.List(
        fields.Dict(),
        metadata={"description": "the jobs in their new form, those to stop in their present one"},
    )
    figures = fields.Nested(FigurePairSchema)
    gap = fields.Float(
        allow_none=True,
        metadata={"description": "proven distance from the optimum, a share (null: unknown)"},
    )
    seconds = fields.Float(metadata={"description": "processor time of the policy"})
    steps = fields.List(fields.Nested(PlacementStepSchema))
    cost = fields.Nested(MoveCostSchema)
    verdicts = fields.List(fields.Nested(VerdictSchema))
    homes = fields.List(fields.Nested(HomeSchema))
    policies = fields.List(fields.Nested(ComparisonSchema), metadata={"description": "if asked for"})
    known_by = fields.Nested(KnownSchema)
    refused = fields.List(fields.Nested(RefusalSchema))
    warnings = fields.List(fields.Nested(WarningSchema), metadata={"description": "of the file"})


class PolicySchema(Schema):
    """A placement policy."""

    name = text("its name")
    about = text("a description in one line")
    comparison = fields.Boolean(
        metadata={"description": "true if it only serves for comparison with the others"}
    )
