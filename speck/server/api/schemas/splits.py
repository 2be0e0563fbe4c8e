"""The schemas of splits by keys in the REST interface's answers."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.core.runtime import Drift
from speck.core.split import Role
from speck.server.api.schemas.fields import text

_RATE = {"description": "messages/s"}


class PartSchema(Schema):
    """A job of a split."""

    job_name = text("the job's name")
    role = fields.String(
        validate=validate.OneOf([each.value for each in Role]), metadata={"description": "its part"}
    )
    number = fields.Integer(allow_none=True, metadata={"description": "of a combiner, from 0"})
    weight = fields.Float(allow_none=True, metadata={"description": "a combiner's share, in any unit"})
    site = text("of the inventory", allow_none=True)
    spe_address = text("its engine")
    state = text("the state at its engine, or pending, lost or unknown")
    drift = fields.String(
        allow_none=True,
        validate=validate.OneOf([each.value for each in Drift]),
        metadata={"description": "its difference from the desired state"},
    )
    up_to_date = fields.Boolean(metadata={"description": "true if it runs in its desired form"})
    input_rate = fields.Float(allow_none=True, metadata=_RATE)
    output_rate = fields.Float(allow_none=True, metadata=_RATE)
    waiting = fields.Integer(allow_none=True, metadata={"description": "messages that its reader holds"})
    work_seconds = fields.Float(allow_none=True, metadata={"description": "length of the last batch, s"})


class SplitSchema(Schema):
    """A split by keys, with its jobs: partitioner, combiners, reducer, or the one job."""

    name = text("the name of the job in the composition's file")
    composition = text("the composition that it belongs to")
    in_one_job = fields.Boolean(metadata={"description": "true: two phases in one Spark job"})
    partitioner = text("the partitioner's name")
    options = fields.Dict(metadata={"description": "the options of the partitioner that were given"})
    workers = fields.Integer(metadata={"description": "the number of combiners"})
    window_seconds = fields.Float(metadata={"description": "length of the windows, s"})
    slide_seconds = fields.Float(metadata={"description": "time between two windows, s"})
    lateness_seconds = fields.Float(metadata={"description": "time for which a window waits, s"})
    parts = fields.List(fields.Nested(PartSchema), metadata={"description": "its jobs, along the data flow"})
