"""The answers about sites, their engines and their brokers."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.server.api.schemas.fields import text


class _ReachedSchema(Schema):
    address = text("as in the inventory")
    reached = fields.Boolean(metadata={"description": "true if it answered just now"})
    error = text("the reason why it was not reached")


class EngineViewSchema(_ReachedSchema):
    """An engine of a site."""

    capacity = fields.Dict(allow_none=True, metadata={"description": "its capacity, used and free"})
    stopped = fields.Boolean(
        metadata={"description": "true if it was stopped by the hook of its pool, as no job needs it"}
    )
    warnings = fields.List(fields.String(), metadata={"description": "faults of its login"})


class BrokerViewSchema(_ReachedSchema):
    """The broker of a site."""

    warnings = fields.List(
        fields.String(),
        metadata={"description": "limits that lose messages, and faults of its login"},
    )


class UplinkViewSchema(Schema):
    """A site's link to the others, from the inventory; null: not given there."""

    bandwidth = fields.Float(allow_none=True, metadata={"description": "to the others, bit/s"})
    downlink = fields.Float(allow_none=True, metadata={"description": "from the others, bit/s"})
    latency = fields.Float(allow_none=True, metadata={"description": "one way, ms"})


class AgentViewSchema(Schema):
    """The agent through which a site is reached."""

    connected = fields.Boolean(metadata={"description": "true if it is connected now"})
    since = fields.Float(
        allow_none=True,
        metadata={"description": "connected since, or away since (Unix time, s); null: never"},
    )
    version = text("of its SpecK, as it reported it last")
    machine = text("the id of its computer, as it reported it last")
    revoked = fields.Boolean(metadata={"description": "true if its token was revoked, and it has no other"})
    restarts = fields.Integer(metadata={"description": "jobs that it has started again and reported"})


class SiteViewSchema(Schema):
    """A site of the inventory, or a broker of none, and whether it can be reached now."""

    name = text("the site's name, or that of a broker that belongs to no site")
    engines = fields.List(
        fields.Nested(EngineViewSchema),
        metadata={"description": "its engines; none: it is a broker that belongs to no site"},
    )
    broker = fields.Nested(BrokerViewSchema, metadata={"description": "its broker"})
    uplink = fields.Nested(UplinkViewSchema, metadata={"description": "its link to the others"})
    agent = fields.Nested(
        AgentViewSchema, allow_none=True, metadata={"description": "null: the site is reached directly"}
    )


class ComplaintSchema(Schema):
    """One thing that is wrong with an engine or a broker."""

    message = text("the fault")
    remedy = text("the remedy (empty: see the message)")
    remark = fields.Boolean(
        metadata={"description": "true for a remark: it may be intended, and is not a fault"}
    )


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
