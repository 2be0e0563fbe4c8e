"""The first thing that runs in a job's driver on a Spark standalone cluster.

The worker fetches this file beside the driver's logs, and ``spark-submit`` runs it; it needs nothing but the
standard library.  It fetches the other files by their content hashes into a folder that the drivers of the
worker share, so that a driver that is started again needs no coordinator, and hands over to
:mod:`binders.spark.standalone.driver`, which is one of them.

What becomes of the driver is told in a file ``speck.out`` beside its logs, which the worker's web interface
shows to whoever asks (``/log/?driverId=...&logType=out``); see :class:`DriverStatus`.
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

VARIABLE = "SPECK_PARCEL"  # of the environment: what is to be done, as JSON in base 64
ACCOUNT = "speck.out"
CACHE = "speck-files"  # in the worker's folder, beside the drivers'

FETCH_PATIENCE = 60.0  # s, for one file
FETCH_TIMEOUT = 20.0  # s, without a byte
PARENT_POLL = 0.5  # s
RAN_WELL = 60.0  # s; who ran longer did not crash for the same reason again


class DriverStatus:
    """What a driver tells of itself, in one file that is replaced as a whole.

    ``kind`` is ``starting``, ``building`` (the job's code runs), ``running``, or, of one that ends for good,
    ``refused``, ``failed``, ``finished`` (by itself), ``stopped`` (on request) or ``gave_way`` (to another
    driver of the attempt); ``message`` says why.  ``starts`` counts the times
    that this driver was started, ``crashes`` those in a row after which it had not run for a minute, ``ran``
    says whether its query ever ran.  ``at`` is Unix time by the worker's clock, s.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.before = _read(path)
        last = self.before.get("at", 0.0)
        crashed = self.before and last - self.before.get("running_since", last) < RAN_WELL
        self._told: dict[str, Any] = {
            "starts": self.before.get("starts", 0) + 1,
            "crashes": self.before.get("crashes", 0) + 1 if crashed else 0,
            "ran": self.before.get("ran", False),
        }

    def tell(self, kind: str, message: str = "", **more: object) -> None:
        """Tell this from now on; what was told before and is not told otherwise stays."""
        self._told |= {"kind": kind, "message": message, "at": time.time(), **more}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._told), encoding="utf-8")
        new.replace(self._path)


def fetch(artifact: dict[str, str], cache: Path) -> Path:
    """The path of a file on this worker, fetched unless it is there.  Raises :class:`OSError`."""
    place = cache / artifact["sha256"] / artifact["name"]
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        try:
            _download(artifact["url"], scratch)
        except OSError as error:
            raise OSError(f"{artifact['name']}: {error}") from error
        with scratch.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != artifact["sha256"]:
            raise OSError(f"{artifact['name']} came with other content than it was announced with")
        scratch.replace(place)
    finally:
        scratch.unlink(missing_ok=True)
    return place


def _download(url: str, place: Path) -> None:
    deadline, pause = time.monotonic() + FETCH_PATIENCE, 0.2
    while True:
        try:
            with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT) as answer:  # noqa: S310 - from its parcel
                place.write_bytes(answer.read())
            return
        except OSError as error:
            # The URL is good for whoever knows it, so it is not repeated.
            status = getattr(error, "code", None)
            if status in (401, 403, 404) or time.monotonic() + pause > deadline:
                host = url.partition("://")[2].partition("/")[0]
                raise OSError(f"not to be had from {host}: {error}") from error
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _end_with(parent: int) -> None:
    """End when the Java process has gone that started this one: a job's code may be anywhere then."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def main() -> int:
    """Fetch, hand over; answers the exit code: another one than 0 has the driver started again."""
    _end_with(os.getppid())
    folder = Path.cwd()
    account = DriverStatus(folder / ACCOUNT)
    if account.before.get("kind") == "building" and not account.before.get("ran"):
        account.tell("refused", "its code ended the process that ran it")
        return 0
    account.tell("starting")
    # Taken out of the environment: the job's code has no business with the passwords in it.
    parcel = json.loads(base64.b64decode(os.environ.pop(VARIABLE)))
    try:
        files = {
            name: fetch(artifact, folder.parent / CACHE) for name, artifact in parcel["artifacts"].items()
        }
    except OSError as error:
        account.tell("refused", f"its worker cannot fetch {error}")
        return 1 if account.before.get("ran") else 0
    sys.path.insert(0, str(files["bundle"]))
    from binders.spark.standalone import driver

    return driver.run(parcel, files, account, folder.name)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of Py4J and of the job's code may not end
