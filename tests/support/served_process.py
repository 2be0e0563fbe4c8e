"""``speck serve`` as a process of its own, over engines and brokers in memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT


@dataclass(frozen=True)
class Served:
    """A server process: its address, and the directory that it works in."""

    process: subprocess.Popen[str]
    url: str
    directory: Path

    def go(self) -> None:
        """Let the jobs start whose names begin with ``slow``."""
        (self.directory / "go").touch()


@contextlib.contextmanager
def served(directory: Path, *options: object, **variables: str) -> Iterator[Served]:
    """Serve on a free loopback port; the process is killed when the block ends, if it still runs.

    ``options`` are further ones of ``speck serve``, ``variables`` of its environment.
    """
    (directory / "work.py").write_text("def work(messages):\n    return messages\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
    serve = [sys.executable, "-m", "tests.support.double_serve", "serve"]
    serve += ["--port", "0", "--data-dir", "store"]
    serve += map(str, options)
    # Whoever runs the tests may have these ignored, as nohup does, which children inherit.
    command = ["env", "--default-signal=HUP,INT,TERM", *serve]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=environment | variables | {"PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("SpecK serves "), said
            yield Served(process, said.split()[-1], directory)
        finally:
            process.kill()
