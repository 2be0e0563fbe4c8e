from __future__ import annotations

import json

from speck.apply.operation import Operation
from speck.core.change import Request
from speck.core.lifecycle import OperationKind

STORED = {
    "kind": "rollback",
    "author": "ann",
    "message": "back",
    "left_behind": ["tcp://b:1883"],
    "give_up": True,
    "atomic": True,
    "base_revision": 3,
}
REQUEST = Request(
    kind=OperationKind.ROLLBACK,
    author="ann",
    message="back",
    base_revision=3,
    leave_behind=("tcp://b:1883",),
    give_up=True,
    atomic=True,
)


def test_a_request_is_stored_under_the_keys_of_former_versions_and_read_back() -> None:
    stored = json.loads(json.dumps(REQUEST.to_dict()))
    assert (stored, Request.from_dict(stored)) == (STORED, REQUEST)


def test_a_request_of_a_version_that_stored_less_has_the_defaults() -> None:
    assert Request.from_dict({"kind": "delete"}) == Request(kind=OperationKind.DELETE, base_revision=0)


def test_an_operation_that_is_read_back_is_at_its_beginning() -> None:
    operation = Operation("0001", "demo", 4, REQUEST, 7.0, lambda: 9.0, ["take care"])
    data = json.loads(json.dumps(operation.to_dict()))
    operation.end("broken off")
    assert Operation.from_dict(data, lambda: 9.0).to_dict() == data
    assert data.keys() == STORED.keys() | {
        *("id", "composition", "revision", "state", "started", "ended", "error", "warnings"),
        *("replaced_by", "engine_calls", "actions"),
    }
