"""Drives the load generator (``Load.java``): compiled once, one JVM for all runs, so that it is warm."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.load.processes import Running, running
from binders.spark.local.commands import java
from testbed.jdk import tool

SOURCE = Path(__file__).with_name("Load.java")

PAYLOAD = 100  # bytes

_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class Generator:
    """A running load generator; each call is one run; ``RuntimeError`` when a message is missing."""

    def __init__(self, process: Running) -> None:
        """Talk to this process."""
        self.process = process

    def flood(self, out: str, back: str, messages: int) -> dict[str, float]:
        """Publish ``messages`` to the topic ``out``, as fast as the broker takes them; receive from ``back``.

        Answers ``seconds`` (first publish to last receipt), ``publish_seconds``, ``received``,
        ``duplicates`` and ``out_of_order``.
        """
        return self._run(f"flood out={out} in={back} messages={messages} bytes={PAYLOAD}")

    def paced(self, out: str, back: str, *, rate: int, seconds: int, warmup: int) -> dict[str, float]:
        """The same at ``rate`` messages/s; measured for ``seconds`` after ``warmup`` seconds.

        Answers ``p50_ms``, ``p90_ms``, ``p99_ms`` and ``p100_ms`` of receive time - send time, for seconds.
        """
        return self._run(
            f"paced out={out} in={back} rate={rate} seconds={seconds} warmup={warmup} bytes={PAYLOAD}"
        )

    def _run(self, command: str) -> dict[str, float]:
        pipe = self.process.process
        assert pipe.stdin is not None and pipe.stdout is not None
        pipe.stdin.write(command + "\n")
        pipe.stdin.flush()
        line = pipe.stdout.readline()
        answer = json.loads(line) if line else {"error": "the load generator has ended"}
        if "error" in answer:
            raise RuntimeError(f"{command}: {answer['error']}")
        return {str(name): float(value) for name, value in answer.items()}


@contextlib.contextmanager
def generator(port: int, directory: Path, quiet: int = 60) -> Iterator[Generator]:
    """A load generator at the broker on this loopback port; its classes and its log go to the directory.

    A run fails when nothing came for ``quiet`` seconds.
    """
    compiler = tool("javac")
    subprocess.run([compiler, "--release", "17", "-d", str(directory), str(SOURCE)], check=True)
    command = [java(), *_OPTIONS, "-cp", str(directory), "Load", str(port), str(quiet)]
    with running("generator", command, directory) as process:
        yield Generator(process)
