"""The schemas of measurements: profiles of jobs and sites, links, probes."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from speck.observe.probing import ProbeState
from speck.placement.profile import Known
from speck.server.api.schemas.fields import UNIX, text


class ValueSchema(Schema):
    """A value of a profile, and its source."""

    value = fields.Float(metadata={"description": "in the unit of its field"})
    known = fields.String(
        validate=validate.OneOf([each.value for each in Known]), metadata={"description": "its source"}
    )
    until = fields.Float(metadata={"description": "its last sample (Unix time, s); 0: not measured"})
    count = fields.Integer(metadata={"description": "number of samples; 0: not measured"})


def _value(description: str, **kwargs: Any) -> fields.Nested:
    return fields.Nested(ValueSchema, allow_none=True, metadata={"description": description}, **kwargs)


def _number(description: str) -> fields.Float:
    return fields.Float(allow_none=True, metadata={"description": description})


class VertexSchema(Schema):
    """The load of a vertex of a Flink job in the last minute."""

    name = text("its name at the engine")
    subtasks = fields.Integer(metadata={"description": "their number"})
    busy = _number("share of time, of a subtask")
    idle = _number("share of time, of a subtask")
    back_pressured = _number("share of time, of a subtask")
    rate_in = _number("messages/s in, of all subtasks")
    rate_out = _number("messages/s out, of all subtasks")
    true_rate_in = _number("messages/s in, if it never waited; null: too little work to tell")
    true_rate_out = _number("messages/s out, if it never waited; null: as of true_rate_in")


class JobProfileSchema(Schema):
    """The load of a job; null: unknown."""

    job_name = text("the job's name")
    composition = text("the composition that it belongs to")
    site = text("of the inventory", allow_none=True)
    fresh = fields.Boolean(
        metadata={"description": "true if its rates are of the last minute, or of the last three intervals"}
    )
    error = text("the reason why there are no newer samples", allow_none=True)
    rate_in = _value("messages/s in")
    rate_out = _value("messages/s out")
    bytes_in = _value("size of an input message with its topic, bytes")
    bytes_out = _value("size of an output message with its topic, bytes")
    cost = _value("processor time of a reference core, s a message")
    fixed = _value("cores that it uses without messages")
    selectivity = _value("messages out per message in")
    batch_overhead = _value("work of a batch without messages, s (Spark)")
    state = _value("size of its state, bytes")
    true_rate_in = _value("messages/s in, if it never waited")
    true_rate_out = _value("messages/s out, if it never waited")
    event_loop = _value("reference cores of its process's event loop per root of the messages/s (Flink)")
    busiest = text("its most loaded vertex (Flink)", allow_none=True)
    vertices = fields.List(fields.Nested(VertexSchema), metadata={"description": "the source first (Flink)"})


class SiteProfileSchema(Schema):
    """The computing power of a site; null: unknown."""

    name = text("the site's name")
    speed = _value("of its cores; 1 is that of the reference core")
    cores = _value("number of cores")
    memory = _value("bytes")


class ProbeSchema(Schema):
    """A probe of a link or of a site."""

    site = text("the site whose engine runs it")
    target = text("the site of the broker, or the broker's name; empty: a core of the site is probed")
    state = fields.String(
        validate=validate.OneOf([each.value for each in ProbeState]),
        metadata={"description": "refused: not run, for the reason in `message`"},
    )
    message = text("the result, or the reason why there is none")


class ProfilesSchema(Schema):
    """The profiles of jobs and sites."""

    observed = fields.Float(metadata=UNIX)
    until = fields.Float(metadata={"description": "the end of the sampling, as of now (Unix time, s)"})
    interval = fields.Float(metadata={"description": "time between two samples of a job, s"})
    cores = fields.Float(metadata={"description": "processor time of measuring, as a share of a core"})
    jobs = fields.List(fields.Nested(JobProfileSchema))
    sites = fields.List(fields.Nested(SiteProfileSchema))
    probes = fields.List(
        fields.Nested(ProbeSchema), metadata={"description": "those of the last request for probes"}
    )


class MeasurementSchema(Schema):
    """A measurement that has begun."""

    composition = text("the composition whose jobs were asked for; empty: all")
    until = fields.Float(metadata={"description": "its end (Unix time, s)"})
    jobs = fields.List(fields.String(), metadata={"description": "the names of the jobs"})


class LinkSchema(Schema):
    """A link from the engines of a site to the broker of another."""

    source = text("the site of the engines")
    target = text("the site of the broker, or the broker's name")
    round_trip = _value("from a message to its acknowledgement, s")
    bandwidth = _value("bytes/s")
    at_least = fields.Boolean(metadata={"description": "true if the bandwidth was never used up"})
    # A schema has a method of the name of this field.
    used = _value(
        "bytes/s that jobs write over it; null: not measured now", attribute="load", data_key="load"
    )
