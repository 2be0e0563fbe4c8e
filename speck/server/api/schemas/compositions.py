"""The answers about compositions and their revisions."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.core.lifecycle import RevisionState
from speck.server.api.schemas.fields import UNIX, text
from speck.server.api.schemas.jobs import JobViewSchema
from speck.server.api.schemas.plans import ChangeSchema, CodeChangeSchema


class CountsSchema(Schema):
    """The numbers of jobs that differ from the revision before."""

    added = fields.Integer(metadata={"description": "jobs that only this one has"})
    removed = fields.Integer(metadata={"description": "jobs that only the other one has"})
    changed = fields.Integer(metadata={"description": "jobs of which a field differs"})


class _RevisionSchema(Schema):
    number = fields.Integer(metadata={"description": "from 1"})
    at = fields.Float(metadata=UNIX)
    author = text("its author")
    message = text("its reason, by the author")
    restored = fields.Integer(
        allow_none=True, metadata={"description": "the revision that a rollback restored"}
    )
    changes = fields.Nested(CountsSchema, metadata={"description": "compared with the previous revision"})
    outcome = fields.String(
        allow_none=True,
        validate=validate.OneOf([state.value for state in RevisionState]),
        metadata={"description": "its outcome so far (null: not known)"},
    )
    operation = text("id of the last operation that asked for it", allow_none=True)
    by = fields.Integer(
        allow_none=True, metadata={"description": "the revision that superseded it or rolled it back"}
    )


class RevisionSchema(_RevisionSchema):
    """An accepted version of a composition."""

    jobs = fields.Integer(metadata={"description": "number of desired jobs"})


class RevisionViewSchema(_RevisionSchema):
    """An accepted version of a composition, in full."""

    jobs = fields.List(fields.Dict(), metadata={"description": "each with its fields"})
    placement = fields.Dict(metadata={"description": "the options of placement that are not the defaults"})


class JobDifferenceSchema(Schema):
    """A job that differs between two revisions."""

    job = text("the job's name")
    kind = fields.String(
        validate=validate.OneOf(("added", "removed", "changed")), metadata={"description": "how"}
    )
    changes = fields.List(fields.Nested(ChangeSchema), metadata={"description": "the fields that differ"})
    code = fields.Nested(CodeChangeSchema, metadata={"description": "of a job whose file changed"})


class DifferenceSchema(Schema):
    """The differences between two revisions of a composition."""

    composition = text("the composition's name")
    before = fields.Integer(metadata={"description": "number of a revision (0: before the first)"})
    after = fields.Integer(metadata={"description": "number of a revision"})
    counts = fields.Nested(CountsSchema)
    placement = fields.List(
        fields.Nested(ChangeSchema), metadata={"description": "the options of placement that differ"}
    )
    jobs = fields.List(fields.Nested(JobDifferenceSchema), metadata={"description": "those that differ"})


class _CompositionSchema(Schema):
    name = text("its name")
    revision = fields.Integer(metadata={"description": "number of the last one"})
    deleting = fields.Boolean(metadata={"description": "true while it is being deleted"})
    operation = text("the operation in progress on it", allow_none=True)


class CompositionSummarySchema(_CompositionSchema):
    """A composition in a list."""

    jobs = fields.Integer(metadata={"description": "number of desired jobs"})
    declared = fields.Dict(
        keys=fields.String(),
        values=fields.Dict(keys=fields.String(), values=fields.String()),
        metadata={"description": "descriptions of topics: of `sources` and of `sinks`, as far as declared"},
    )


class DeletedCompositionSchema(Schema):
    """A deleted composition whose history is retained."""

    name = text("its name")
    revision = fields.Integer(metadata={"description": "number of its last revision"})
    at = fields.Float(metadata=UNIX)
    author = text("the author of the deletion")
    message = text("its reason, by the author")
    operation = text("the id of the deletion")


class CompositionViewSchema(_CompositionSchema):
    """A composition with its jobs and revisions."""

    jobs = fields.List(fields.Nested(JobViewSchema), metadata={"description": "desired and observed"})
    revisions = fields.List(fields.Nested(RevisionSchema), metadata={"description": "the stored ones"})
