"""The answer about the plan by which an engine executes a job."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.core.engine_plan import OperatorClass, ShipStrategy
from speck.server.api.schemas.fields import text


class PlanNodeSchema(Schema):
    """One operator of an engine's plan."""

    id = text("unique in the plan")
    kind = fields.String(
        validate=validate.OneOf([each.value for each in OperatorClass]),
        metadata={"description": "the class of the operator"},
    )
    name = text("in the engine's words")
    description = text("in the engine's words, shortened; empty for the role read")
    parallelism = fields.Integer(
        allow_none=True, metadata={"description": "number of subtasks; null: not reported"}
    )
    task = text("id of the task (Flink: vertex, Spark: stage) that executes it with those chained to it")


class PlanEdgeSchema(Schema):
    """Rows flow from one operator to another."""

    source = text("id of the operator that sends")
    target = text("id of the operator that receives")
    strategy = fields.String(
        validate=validate.OneOf([each.value for each in ShipStrategy]),
        metadata={"description": "the way in which rows reach the subtasks"},
    )
    described = text("the strategy in the engine's words")
    chained = fields.Boolean(metadata={"description": "true if both are in one task"})


class EnginePlanSchema(Schema):
    """The plan by which an engine executes a job."""

    job_name = text("the job's name")
    engine = text("the kind of engine")
    address = text("of the engine")
    attempt = fields.Integer(metadata={"description": "the attempt that executes it"})
    observed_at = fields.Float(metadata={"description": "when it was read (Unix time, s)"})
    nodes = fields.List(
        fields.Nested(PlanNodeSchema), metadata={"description": "in data order, as far as there is no cycle"}
    )
    edges = fields.List(fields.Nested(PlanEdgeSchema))
    tasks = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        metadata={"description": "the engine's names of tasks by their ids"},
    )
    notes = fields.List(
        fields.String(), metadata={"description": "sentences about what the engine does not report"}
    )
    features = fields.Dict(
        keys=fields.String(),
        values=fields.Float(allow_none=True),
        metadata={"description": "by name (docs/engine-plans.md has their units); null: unknown"},
    )
