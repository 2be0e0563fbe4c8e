"""The answers about the server itself: its health, store, events and errors."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.coordinator.queries.doctor import Finding
from speck.server.api.schemas.fields import UNIX, text
from speck.server.api.schemas.plans import WarningSchema
from speck.server.tokens import Role


class DiagnosisSchema(Schema):
    """One finding of the doctor."""

    finding = fields.String(
        validate=validate.OneOf([each.value for each in Finding]), metadata={"description": "its kind"}
    )
    where = text("the job's name, or the address of an engine or broker")
    message = text("the observation")
    remedy = text("what to do")


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


class StandbySchema(Schema):
    """The standby of a server."""

    epoch = fields.Integer(metadata={"description": "the number of take-overs and starts of the pair so far"})
    in_sync = fields.Boolean(metadata={"description": "true if it has everything, and would take over"})
    since = fields.Float(metadata={"description": "since when, in Unix time"})
    reason = text("the reason why it is not in step; empty if it is")
    other_version = text("its version, if it is another than this server's; empty otherwise")


class HealthSchema(Schema):
    """The liveness of the server."""

    status = fields.String(validate=validate.Equal("ok"), metadata={"description": "always ok"})
    store = text("the reason why the store cannot be written, if it cannot")
    standby = fields.Nested(
        StandbySchema, metadata={"description": "its standby, of a server that has one; with a token alone"}
    )


class FindingSchema(Schema):
    """One thing that is wrong with the store."""

    what = text("the record, or the code, that it is about")
    message = text("its fault")


class ArtifactSchema(Schema):
    """The code of a job as far as it is here."""

    sha256 = text("the SHA-256 of its content, in hexadecimal")
    received = fields.Integer(metadata={"description": "the bytes that are here"})
    complete = fields.Boolean(metadata={"description": "true if that is all, and has this hash"})


class ProblemSchema(Schema):
    """An error (RFC 9457)."""

    type = text("about:blank: the status says it all")
    title = text("the status as text")
    status = fields.Integer(metadata={"description": "the HTTP status"})
    detail = text("the error in one line")
    received = fields.Integer(metadata={"description": "of an artifact that is not here: the bytes that are"})
    shutting_down = fields.Boolean(metadata={"description": "true if the server accepts nothing more"})
    accepted = fields.Boolean(metadata={"description": "false if the server accepts no code from clients"})
    faults = fields.List(fields.Nested(WarningSchema), metadata={"description": "every fault of the request"})
