"""The lease of an attempt: at most one of several drivers of one attempt runs its query.

A request to a master whose answer is lost may have been executed, so an attempt may have two drivers.  Before
a driver touches the checkpoint it acquires the lease of the attempt, a file in the checkpoint that only one
can create; the other exits.  The lease passes to another driver when the master reports that it has replaced
the owner: a driver that is restarted elsewhere, because its worker was lost, has another id.
"""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

LEASES = "speck-attempts"  # folder of the lease files in a checkpoint

_TIMEOUT = 10.0  # s
_LARGEST = 1 << 20  # bytes of the master's answer
_LONGEST_REASON = 200  # characters; a stack trace follows
_REPLACED = frozenset({None, "RELAUNCHING"})  # states of an owner that will not run again


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the token is for the master only."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


# Without the proxies of the worker's environment, which are for web pages.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


class OwnerUnknown(Exception):
    """The owner of a lease, or its state, cannot be determined at the moment."""


class AttemptLease:
    """The leases in one checkpoint; ``rest`` is the URL of the master's REST server, ``token`` its login.

    ``jvm`` is Py4J's view of the driver's Java process, which needs no Spark context yet.
    """

    def __init__(self, jvm: Any, checkpoint: str, rest: str, token: str | None) -> None:
        spark = jvm.org.apache.spark
        self._configuration = spark.deploy.SparkHadoopUtil.get().newConfiguration(spark.SparkConf())
        self._path = jvm.org.apache.hadoop.fs.Path
        self._checkpoint = checkpoint
        self._rest, self._token = rest, token
        self._files = self._path(checkpoint).getFileSystem(self._configuration)

    def has_checkpoint(self) -> bool:
        """True if a query was started in the checkpoint before."""
        return bool(self._files.exists(self._path(f"{self._checkpoint}/metadata")))

    def acquire(self, attempt: str, driver: str) -> str | None:
        """Acquire the lease of an attempt for a driver; returns the other driver that holds it, or ``None``.

        Raises :class:`OwnerUnknown`.
        """
        place = self._path(f"{self._checkpoint}/{LEASES}/{attempt}")
        if self._create(place, driver):
            return None
        owner = self._read(place)
        if owner == driver:
            return None
        if self._state(owner) not in _REPLACED:
            return owner
        self._write(place, driver, overwrite=True)
        return None

    def _create(self, place: Any, driver: str) -> bool:
        """Create the file unless it exists; atomic."""
        self._files.mkdirs(place.getParent())
        try:
            if self._files.getScheme() == "file":
                # On a local file system, Hadoop's check and creation of a file are not atomic.
                _link(Path(self._files.makeQualified(place).toUri().getPath()), driver)
            else:
                self._write(place, driver, overwrite=False)
        except FileExistsError:
            return False
        except Py4JJavaError as error:
            if self._files.exists(place):
                return False
            raise OwnerUnknown(f"cannot acquire the lease at {place}: {error.java_exception}") from error
        return True

    def _write(self, place: Any, driver: str, *, overwrite: bool) -> None:
        out = self._files.create(place, overwrite)
        out.write(bytearray(driver.encode()))
        out.close()

    def _read(self, place: Any) -> str:
        source = self._files.open(place)
        try:
            owner = bytes(source.readNBytes(1000)).decode()
        finally:
            source.close()
        if not owner:
            raise OwnerUnknown(f"the lease at {place} is being written by another driver")
        return owner

    def _state(self, driver: str) -> str | None:
        url = f"{self._rest}/v1/submissions/status/{driver}"
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http, always
            with _DIRECT.open(request, timeout=_TIMEOUT) as answer:
                content = json.loads(answer.read(_LARGEST))
            if not isinstance(content, dict):
                raise ValueError("its answer is not a JSON object")
        except (OSError, ValueError) as error:
            raise OwnerUnknown(f"the master does not report the state of {driver}: {error}") from error
        state: str | None = content.get("driverState") if content.get("success") else None
        # A master that recovers, or is a standby, answers as if it did not know the driver, with a reason.
        if state is None and (message := str(content.get("message") or "")):
            reason = " ".join(message.split())[:_LONGEST_REASON]
            raise OwnerUnknown(f"the master does not report the state of {driver}: {reason}")
        return state


def _link(place: Path, text: str) -> None:
    """Create a file together with its content; raises :class:`FileExistsError`."""
    scratch = place.with_name(f".{place.name}.{text}")
    scratch.write_text(text, encoding="utf-8")
    try:
        os.link(scratch, place)
    finally:
        scratch.unlink()
