"""The bootstrap program of a job's driver on a Spark standalone cluster.

The worker fetches this file to the folder of the driver's logs, and ``spark-submit`` runs it; it uses the
standard library only.  It fetches the other files by their content hashes into a folder that the drivers of
the worker share, so that a restarted driver needs no coordinator, and then runs
:mod:`binders.spark.standalone.driver`, which is one of them.

The driver's status is in a file ``speck.out`` beside its logs, which the worker's web interface serves to any
client (``/log/?driverId=...&logType=out``); see :class:`DriverStatus`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

VARIABLE = "SPECK_PARCEL"  # environment variable with the submission: JSON in base 64
STATUS_FILE = "speck.out"
CACHE = "speck-files"  # in the worker's folder, beside the drivers'

FETCH_PATIENCE = 60.0  # s, for one file
FETCH_TIMEOUT = 20.0  # s, without a byte
PARENT_POLL = 0.5  # s
# Without the proxies of the worker's environment, which are for web pages.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
CRASH_WINDOW = 60.0  # s; the end of a driver that ran longer is no repeated crash


class DriverStatus:
    """The status of a driver, in one file that is replaced as a whole.

    ``kind`` is ``starting``, ``building`` (the job's code runs), ``running``, or, for one that has ended,
    ``refused``, ``failed``, ``finished`` (by itself), ``stopped`` (on request) or ``gave_way`` (to another
    driver of the attempt); ``message`` is the reason.  ``starts`` counts the starts of this driver,
    ``crashes`` the consecutive ones that ran for less than a minute, ``ran`` is true if its query ever ran.
    ``at`` is Unix time by the worker's clock, s.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.previous = _read(path)
        last = self.previous.get("at", 0.0)
        crashed = self.previous and last - self.previous.get("running_since", last) < CRASH_WINDOW
        self._fields: dict[str, Any] = {
            "starts": self.previous.get("starts", 0) + 1,
            "crashes": self.previous.get("crashes", 0) + 1 if crashed else 0,
            "ran": self.previous.get("ran", False),
        }

    def write(self, kind: str, message: str = "", **fields: object) -> None:
        """Replace the status; other fields keep their values.

        On a full disk the former one stays: it is no reason to end the query, whose checkpoint is elsewhere.
        """
        self._fields |= {"kind": kind, "message": message, "at": time.time(), **fields}
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(self._fields), encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            print(f"the status {kind!r} cannot be written to {self._path}: {error.strerror}", file=sys.stderr)


def fetch(artifact: dict[str, str], cache: Path) -> Path:
    """The path of a file on this worker, fetched if missing.  Raises :class:`OSError`."""
    place = cache / artifact["sha256"] / artifact["name"]
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_name(f".fetched.{os.getpid()}")  # the name itself may be as long as names can be
    try:
        try:
            _download(artifact["url"], scratch)
        except OSError as error:
            raise OSError(f"{artifact['name']}: {error}") from error
        with scratch.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != artifact["sha256"]:
            raise OSError(f"{artifact['name']} has SHA-256 {found} (expected {artifact['sha256']})")
        scratch.replace(place)
    finally:
        scratch.unlink(missing_ok=True)
    return place


def _download(url: str, place: Path) -> None:
    deadline, pause = time.monotonic() + FETCH_PATIENCE, 0.2
    while True:
        try:
            with _DIRECT.open(url, timeout=FETCH_TIMEOUT) as answer:
                place.write_bytes(answer.read())
            return
        except OSError as error:
            # The URL itself grants access, so it is not repeated.
            status = getattr(error, "code", None)
            if status in (401, 403, 404) or time.monotonic() + pause > deadline:
                host = url.partition("://")[2].partition("/")[0]
                raise OSError(f"not available from {host}: {error}") from error
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _end_with(parent: int) -> None:
    """Exit when the Java process that started this one has ended, whatever the job's code is doing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def prefer_installed_pyspark(home: str, path: list[str]) -> None:
    """Search the zips of Spark's Python modules last, if this Spark is the one of the installed PySpark.

    ``home`` is Spark's folder, ``path`` the module search path, changed in place; ``spark-submit`` puts the
    zips first.  Modules in a zip are compiled at each start: 0.6 s of processor time.
    """
    installed = {os.path.realpath(folder) for folder in path}
    if Path(home, "__init__.py").is_file() and os.path.realpath(Path(home).parent) in installed:
        zips = str(Path(home, "python", "lib"))
        path.sort(key=lambda each: each.startswith(zips))


def main() -> int:
    """Fetch the files and run the driver; returns the exit code: the master restarts it unless that is 0."""
    _end_with(os.getppid())
    folder = Path.cwd()
    status = DriverStatus(folder / STATUS_FILE)
    if status.previous.get("kind") == "building" and not status.previous.get("ran"):
        status.write("refused", "its code ended the process that ran it")
        return 0
    status.write("starting")
    # Removed from the environment: it contains passwords, which the job's code must not see.
    submission = json.loads(base64.b64decode(os.environ.pop(VARIABLE)))
    try:
        files = {
            name: fetch(artifact, folder.parent / CACHE) for name, artifact in submission["artifacts"].items()
        }
    except OSError as error:
        status.write("refused", f"its worker cannot fetch {error}")
        return 1 if status.previous.get("ran") else 0
    prefer_installed_pyspark(os.environ.get("SPARK_HOME", ""), sys.path)
    sys.path.insert(0, str(files["bundle"]))
    from binders.spark.standalone import driver

    return driver.run(submission, files, status, folder.name)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without waiting for threads of Py4J and of the job's code
