"""``speck serve`` as a separate process, over engines and brokers in memory."""

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
        """Allow the start of the jobs whose names begin with ``slow``."""
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
    # The parent may ignore these signals, as nohup does, and children inherit that.
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
            line = process.stdout.readline()
            assert line.startswith("SpecK serves "), line
            yield Served(process, line.split()[-1], directory)
        finally:
            process.kill()
