"""Every command of the documentation, typed in its order: real engines, real brokers, a real server.

The tutorial's sites and composition stay for the pages that follow it; its last section takes them down.
``SPECK_DOCS_UPDATE=1`` writes what was printed into the tutorial and the README, and compares nothing.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator

import pytest

from testbed import ROOT
from testbed.servers.mosquitto import PROGRAM
from tests.support.docs_blocks import Block, typed
from tests.support.docs_shell import Reader, rewrite

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
LAST_SECTION = "Clean up"
IN_THE_SAME_WORLD = ("history.md", "operating.md", "placement.md", "sites.md", "store.md", "workers.md")
UPDATE = bool(os.environ.get("SPECK_DOCS_UPDATE"))

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = Reader(tmp_path_factory.mktemp("reader") / "cold-rooms", port, UPDATE)
    try:
        yield found
    finally:
        found.close()


def work_through(reader: Reader, found: list[Block]) -> None:
    assert found
    for block in found:
        if "file" in block.notes:
            reader.save(block)
        else:
            reader.type(block)


def compositions(reader: Reader) -> set[str]:
    """The names of the compositions at the reader's server."""
    code, printed = reader.run("speck compositions --json 2> /dev/null")
    assert code == 0, printed
    return {each["name"] for each in json.loads("".join(printed))}


def test_the_tutorial(reader: Reader) -> None:
    work_through(reader, [each for each in typed(TUTORIAL) if each.heading != LAST_SECTION])


@pytest.mark.parametrize("name", IN_THE_SAME_WORLD)
def test_commands_of_a_page(reader: Reader, name: str) -> None:
    before = compositions(reader)
    try:
        work_through(reader, typed(ROOT / "docs" / name))
    except AssertionError:
        # Measured advice may vary on a busy machine; what stayed behind would fail the repetition as well.
        for added in compositions(reader) - before:
            reader.run(f"speck delete {added} --yes")
        raise


def test_the_readme(reader: Reader) -> None:
    """Its pipeline is deployed beside that of the tutorial, and deleted for the pages that follow."""
    work_through(reader, typed(README))
    assert reader.run("speck delete greenhouse --yes")[0] == 0
    if UPDATE:
        rewrite(README, reader.printed_of(README))


def test_the_end_of_the_tutorial(reader: Reader) -> None:
    work_through(reader, [each for each in typed(TUTORIAL) if each.heading == LAST_SECTION])
    if UPDATE:
        rewrite(TUTORIAL, reader.printed_of(TUTORIAL))
