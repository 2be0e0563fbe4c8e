"""Processor time of commands: ``python -m benchmarks.cli [--json] [--runs N]``.

Each command runs in a process of its own against a server over engines in memory, with a composition of ten
jobs: ``jobs`` while they run, ``plan`` and ``apply`` without changes, ``validate`` of the file.  ``seconds``
is the user and system time of the process, ``ratio`` that in relation to ``python -c pass`` in the same
round; both are medians over the rounds, with minimum and maximum.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from testbed.results import add_output_options, published
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.termination import run

RUNS = 9
JOBS = 10
COMMANDS = {
    "jobs": ("jobs",),
    "plan": ("plan", "chain.yaml"),
    "apply": ("apply", "chain.yaml"),
    "validate": ("validate", "chain.yaml"),
}


def measure(runs: int) -> list[dict[str, Any]]:
    """A row for each command."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    ratios: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as directory, rest_server(Path(directory)) as server:
        _deploy(server)
        for run in range(runs + 1):
            base = seconds([sys.executable, "-c", "pass"], server.root)
            for name, arguments in COMMANDS.items():
                command = [sys.executable, "-m", "speck.cli", "--server", server.url, *arguments]
                took = seconds(command, server.root)
                if run:  # the first round may compile modules
                    found[name].append(took)
                    ratios[name].append(took / base)
    return [
        {"command": name, "runs": runs}
        | dict(Figure.of(found[name]).named("seconds"))
        | dict(Figure.of(ratios[name]).named("ratio"))
        for name in COMMANDS
    ]


def _deploy(server: RestServer) -> None:
    text = yaml_of(*(f"clean-{number} in/{number} out/{number}" for number in range(JOBS)))
    (server.root / "chain.yaml").write_text(text)
    operation = server.client.apply(text.encode(), "chain", wait=60)
    assert operation["state"] == "succeeded", operation


def seconds(command: list[str], directory: Path) -> float:
    """User and system time of a process that must succeed, in s."""
    place = os.environ.get("PYTHONPATH", "") or str(Path(__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": place}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        command, cwd=directory, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said.decode()
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cli", description=__doc__)
    add_output_options(parser)
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="runs of each command")
    options = parser.parse_args()
    rows = measure(options.runs)
    if published(options, "cli", {"cli": rows}):
        return
    print(f"{'command':<10} {'processor s':>11} {'(min, max)':>16}  {'ratio':>6}")
    for row in rows:
        span = f"({row['seconds_min']:.3f}, {row['seconds_max']:.3f})"
        print(f"{row['command']:<10} {row['seconds']:>11.3f} {span:>16}  {row['ratio']:>6.1f}")


if __name__ == "__main__":
    run(main)
