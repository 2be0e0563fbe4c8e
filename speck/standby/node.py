"""The file of a server of a pair in its store's directory: its id, and its last epoch as the primary.

A directory with one is served only as a part of its pair: the other server may be the primary.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from speck.core.durable_files import replace_file
from speck.errors import Fault, InvalidInput
from speck.standby.messages import BadRequest, number_in, text_in

NAME = "pair.json"


@dataclass(frozen=True, slots=True)
class Node:
    """``identifier`` is this server's alone; ``epoch`` is 0 if it was never the primary.

    ``claims``: it has asked for an epoch with its own store, not with a copy, and has no answer yet.
    """

    identifier: str
    epoch: int = 0
    claims: bool = False


def node_of(directory: Path) -> Node:
    """The server of a directory, with a new id if it has none.

    Raises :class:`~speck.errors.InvalidInput` for a file that cannot be used.
    """
    path = directory / NAME
    try:
        data: Any = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise BadRequest("it is not an object")
        return Node(text_in(data, "id"), number_in(data, "epoch"), data.get("claims") is True)
    except FileNotFoundError:
        return _written(directory, Node(secrets.token_hex(8)))
    except (OSError, ValueError, BadRequest) as error:
        raise _wrong(f"{path} cannot be read as the file of a pair: {error}") from error


def with_claim(directory: Path, node: Node) -> Node:
    """Note that this server asks for an epoch with its own store."""
    return node if node.claims else _written(directory, replace(node, claims=True))


def with_epoch(directory: Path, node: Node, epoch: int) -> Node:
    """Note the epoch in which this server is the primary."""
    return _written(directory, replace(node, epoch=epoch, claims=False))


def refuse_pair(directory: Path) -> None:
    """Raise :class:`~speck.errors.InvalidInput` for the directory of a server of a pair."""
    if (path := directory / NAME).exists():
        raise _wrong(
            f"store {str(directory)!r} is that of a pair of servers, of which the other one may be the "
            "primary (give --standby or --standby-of, --witness and --standby-token; or, if the other server "
            f"has ended permanently and this one has all of its changes, delete {path})"
        )


def _written(directory: Path, node: Node) -> Node:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = {"format": 1, "id": node.identifier, "epoch": node.epoch, "claims": node.claims}
        content = json.dumps(data)
        replace_file(directory / NAME, f"{content}\n".encode())
    except OSError as error:
        raise _wrong(f"{directory / NAME} cannot be written: {error.strerror or error}") from error
    return node


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "standby")
