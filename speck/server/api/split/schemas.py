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
    rows_per_second = fields.Float(allow_none=True, metadata={"description": "rows, of its last window"})
    busy_share = fields.Float(
        allow_none=True,
        metadata={"description": "processor seconds of its steps by second, of its last window"},
    )


class SplitMetricsSchema(Schema):
    """The last window of the reports of a split; counts are since the server began to read them."""

    reported = fields.Float(allow_none=True, metadata={"description": "time of the last report, Unix time"})
    rows_per_second = fields.Float(allow_none=True, metadata={"description": "rows received"})
    imbalance = fields.Float(
        allow_none=True,
        metadata={"description": "largest load by weight over the mean, minus 1; mean over the slides"},
    )
    hot = fields.Integer(allow_none=True, metadata={"description": "hot keys of the newest slide"})
    true_hot = fields.Integer(allow_none=True, metadata={"description": "those of them that were split"})
    shared_keys = fields.Integer(
        allow_none=True, metadata={"description": "keys of the newest slide whose windows the reducer merges"}
    )
    late_rows = fields.Integer(metadata={"description": "rows that came after their windows"})
    bad_rows = fields.Integer(metadata={"description": "rows without a key, or without a valid time"})
    lost_frames = fields.Integer(metadata={"description": "frames that were lost between the parts"})
    weights = fields.List(
        fields.Float(), metadata={"description": "shares of the combiners in force; empty if not reported"}
    )
    policy = fields.String(
        allow_none=True,
        metadata={"description": "trained policy that set the weights, or none with the reason"},
    )
    table_age_seconds = fields.Float(
        allow_none=True, metadata={"description": "age of the measurements behind the weights, s"}
    )


class WorkSchema(Schema):
    """The work of a combiner in a window."""

    rows = fields.Integer(metadata={"description": "rows"})
    busy = fields.Float(metadata={"description": "processor time of its steps, s"})
    wall = fields.Float(metadata={"description": "wall time of its steps, s"})


class WindowSchema(Schema):
    """A window of the measured work of a split's combiners."""

    end = fields.Float(metadata={"description": "its end, Unix time"})
    seconds = fields.Float(metadata={"description": "its length, s"})
    workers = fields.List(
        fields.Nested(WorkSchema, allow_none=True),
        metadata={"description": "the work of each combiner; null for one that did not report"},
    )
    weights = fields.List(
        fields.Float(), metadata={"description": "shares of the combiners in force; empty if not reported"}
    )


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
    weights = fields.String(
        validate=validate.OneOf(("fixed", "measured")), metadata={"description": "the origin of the shares"}
    )
    metrics_window_seconds = fields.Float(metadata={"description": "time over which work is measured, s"})
    metrics_slide_seconds = fields.Float(metadata={"description": "time between two measurements, s"})
    metrics = fields.Nested(
        SplitMetricsSchema, allow_none=True, metadata={"description": "null if its reports are not read yet"}
    )
    parts = fields.List(fields.Nested(PartSchema), metadata={"description": "its jobs, along the data flow"})
