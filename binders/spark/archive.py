"""An archive of Spark's classes, which halves the time and processor time of a Connect server's start.

``python -m binders.spark.archive`` makes it, once for each Java and each version of Spark (class data
sharing, JEP 350): a server is started, given a small streaming query, and stopped, and Java writes down
what it loaded.  Every later server maps the same file, so that several servers share that memory.  A
server whose Java or class path does not fit the archive ignores it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from binders.spark.local import CONNECT_SERVER
from binders.spark.server import class_archive, connect_server_command, connect_server_environment
from speck.errors import LocalError
from speck.local_record import free_port

_START_TIMEOUT = 180.0
_WRITE_TIMEOUT = 180.0
_POLL = 0.1


def build() -> Path:
    """Make the archive unless it is there.  Raises :class:`~speck.errors.LocalError`."""
    archive = class_archive()
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="speck-archive-", dir=archive.parent) as folder:
        made = _record_server(Path(folder))
        made.replace(archive)
    return archive


def _record_server(folder: Path) -> Path:
    port, made, log = free_port(0, set()), folder / "classes.jsa", folder / "server.log"
    options = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    command = connect_server_command(port, directory=folder, jvm_options=options)
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env=connect_server_environment(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        _await_ready(server, port, log)
        _exercise(f"sc://127.0.0.1:{port}")
        server.send_signal(signal.SIGTERM)
        server.wait(_WRITE_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"the archive of Spark's classes was not written in {_WRITE_TIMEOUT:g} s") from error
    finally:
        server.kill()
        server.wait()
    if not made.exists():
        raise LocalError(f"Java wrote no archive of Spark's classes; the end of its log:\n{_tail(log)}")
    return made


def _await_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while not CONNECT_SERVER.ready(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise LocalError(f"the Connect server did not come up; the end of its log:\n{_tail(log)}")
        time.sleep(_POLL)


def _exercise(address: str) -> None:
    """Run what a job makes a server load: a streaming query with a window and an aggregation."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.builder.remote(address).create()
    rates = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    counts = rates.groupBy(f.window("timestamp", "10 seconds")).agg(f.sum("value"), f.count("*"))
    query = counts.writeStream.outputMode("update").format("noop").start()
    query.processAllAvailable()
    query.stop()
    spark.stop()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


def main() -> int:
    """Make the archive and print where it is; 1 on an error."""
    try:
        print(build())
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
