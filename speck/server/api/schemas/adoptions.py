"""The schemas of adoptions: the jobs of a lost store that this one takes over."""

from __future__ import annotations

from marshmallow import Schema, fields

from speck.server.api.schemas.fields import text
from speck.server.api.schemas.plans import WarningSchema


class AdoptionSchema(Schema):
    """A running copy of another store that becomes the attempt of a job."""

    job = text("the job's name")
    owner = text("the identity of the store that has started it")
    address = text("the engine that runs it")
    attempt = text("its id")
    number = fields.Integer(metadata={"description": "its number"})
    broker = text("the broker that it reads from")
    session = text("the name of its session there")
    fenced = fields.Integer(
        metadata={"description": "the highest attempt that the session's fence has named (0: none)"}
    )
    incarnation = fields.Integer(metadata={"description": "a number in its stamps"})
    origin = fields.Integer(metadata={"description": "a number in its stamps"})
    lineage = text("the id of the attempt whose work it repeats from the beginning (empty: none)")


class AdoptionRefusalSchema(Schema):
    """A job that cannot be adopted."""

    job = text("the job's name")
    reason = text("the reason")
    remedy = text("a way on")


class AdoptionPlanSchema(Schema):
    """The copies that an adoption takes into the store; with one refusal, none."""

    composition = text("the composition's name")
    base_revision = fields.Integer(metadata={"description": "the revision it was made from (0: none yet)"})
    adopts = fields.List(fields.Nested(AdoptionSchema))
    refuses = fields.List(fields.Nested(AdoptionRefusalSchema))
    absent = fields.List(
        fields.String(), metadata={"description": "jobs that are not running, which an apply starts"}
    )
    own = fields.List(fields.String(), metadata={"description": "jobs that this store runs already"})
    warnings = fields.List(
        fields.Nested(WarningSchema),
        metadata={"description": "parts of the file that are allowed but may be mistakes"},
    )
