"""The answers about workers that come and go."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.server.api.schemas.fields import UNIX, text

STATES = ("idle", "scaling", "short", "over", "failed", "silent")


def _number(description: str) -> fields.Integer:
    return fields.Integer(allow_none=True, metadata={"description": f"{description}; null: not known yet"})


class WorkerSchema(Schema):
    """A worker that is registered at its engine; null: the engine does not report it."""

    id = text("the engine's id of it")
    index = fields.Integer(metadata={"description": "its place in the order in which free ones are stopped"})
    free = fields.Boolean(metadata={"description": "true while it runs no part of any job"})
    stopped = fields.Boolean(
        metadata={"description": "true for an engine of a pool that was stopped, as no job needs it"}
    )
    free_for = fields.Float(allow_none=True, metadata={"description": "since when it is free, s ago"})
    cores = fields.Float(allow_none=True, metadata={"description": "as reported by the engine"})
    busy_cores = fields.Float(
        allow_none=True, metadata={"description": "processor time that it takes, cores"}
    )
    slots = fields.Integer(allow_none=True, metadata={"description": "tasks that it can run"})
    slots_free = fields.Integer(allow_none=True, metadata={"description": "of these, the free ones"})
    memory = fields.Integer(allow_none=True, metadata={"description": "bytes"})
    memory_free = fields.Integer(allow_none=True, metadata={"description": "bytes"})


class WorkersSchema(Schema):
    """An engine whose workers come and go: their desired number, the workers, and the state of the hook."""

    site = text("its site")
    engine = text("its address")
    least = fields.Integer(metadata={"description": "`min` of the inventory"})
    most = fields.Integer(metadata={"description": "`max` of the inventory"})
    cores = fields.Float(metadata={"description": "of a worker, as of the inventory"})
    slots = _number("slots of a worker")
    present = fields.Integer(metadata={"description": "workers that are registered"})
    desired = _number("the desired number of workers")
    bins = _number("workers that the jobs fill")
    spare = _number("workers that are kept free for jobs to come")
    instances = _number("instances of jobs, those that are predicted included")
    predicted = _number("instances that waiting messages ask for")
    filled = fields.List(
        fields.Float(), metadata={"description": "load of each worker that the jobs fill, as a share of it"}
    )
    state = fields.String(
        validate=validate.OneOf(STATES),
        metadata={"description": "idle: as desired; scaling: the hook is called, or its workers are awaited"},
    )
    message = text("the fault, or the reason for the desired number")
    next_try = fields.Float(
        allow_none=True, metadata=UNIX | {"description": "of the hook, after a fault (Unix time, s)"}
    )
    observed_at = fields.Float(allow_none=True, metadata=UNIX)
    workers = fields.List(fields.Nested(WorkerSchema))
