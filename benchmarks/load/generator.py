"""Drives a load generator (``Load.java``, ``KafkaLoad.java``): compiled once, one JVM for all runs, warm."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.load.processes import Running, running
from binders.kafka.local import server_jars
from binders.spark.local.commands import java
from testbed.jdk import tool

_HERE = Path(__file__).parent

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

        Answers ``p50_ms``, ``p90_ms``, ``p99_ms``, ``p99.9_ms`` and ``p100_ms`` of receive time - send time,
        for seconds.
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
    command = program("Load", directory, port, quiet)
    with running("generator", command, directory) as process:
        yield Generator(process)


@contextlib.contextmanager
def kafka_generator(port: int, directory: Path, quiet: int = 60) -> Iterator[Generator]:
    """The same at the Kafka on this loopback port, with the clients of the server's own version."""
    command = program("KafkaLoad", directory, port, quiet, jars=server_jars())
    with running("kafka-generator", command, directory) as process:
        yield Generator(process)


def program(name: str, directory: Path, *arguments: object, jars: Path | None = None) -> list[str]:
    """The command that runs a program of this folder, which is compiled into the directory."""
    libraries = [] if jars is None else [str(jars / "*")]
    path = os.pathsep.join([str(directory), *libraries])
    options = ["--release", "17", "-sourcepath", str(_HERE), "-cp", path, "-d", str(directory)]
    subprocess.run([tool("javac"), *options, str(_HERE / f"{name}.java")], check=True)
    return [java(), *_OPTIONS, "-cp", path, name, *map(str, arguments)]
