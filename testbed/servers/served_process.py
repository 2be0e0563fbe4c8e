"""``speck serve`` as a separate process, over engines and brokers in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

from testbed.servers.forked import Forked


@dataclass(frozen=True)
class Served:
    """A server process: its address, and the directory that it works in."""

    process: Forked
    url: str
    directory: Path

    def go(self) -> None:
        """Allow the start of the jobs whose names begin with ``slow``."""
        (self.directory / "go").touch()


@contextlib.contextmanager
def served(directory: Path, *options: object, **variables: str) -> Iterator[Served]:
    """Serve on a free loopback port; the process is killed when the block ends, if it still runs.

    ``options`` are further ones of ``speck serve``, ``variables`` of its environment.
    """
    (directory / "work.py").write_text("def work(messages):\n    return messages\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
    serve = ["serve", "--port", "0", "--data-dir", "store", *map(str, options)]
    with Forked(
        "testbed.servers.double_serve",
        serve,
        stdout=PIPE,
        stderr=PIPE,
        cwd=directory,
        env=environment | variables,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("SpecK serves "), line
            yield Served(process, line.split()[-1], directory)
        finally:
            process.kill()
