"""One driver an attempt: which of several drivers of one attempt may work.

A request to a master whose answer is lost may have been carried out, so an attempt may come to have two
drivers.  Before one touches the checkpoint it claims the attempt, by a file in the checkpoint that only one
can make; the other ends.  A claim passes on when the master says that it has replaced its owner: a driver
that is started elsewhere, because its worker was lost, gets another id.
"""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

CLAIMS = "speck-attempts"

_TIMEOUT = 10.0  # s
_REPLACED = frozenset({None, "RELAUNCHING"})  # states of an owner that will not work again


class OwnerUnknown(Exception):
    """Whether another driver works on the attempt cannot be told now."""


class AttemptLease:
    """The claims in one checkpoint; ``rest`` is the URL of the master's REST server, ``token`` opens it.

    ``jvm`` is Py4J's view of the driver's Java process, where no Spark context is needed yet.
    """

    def __init__(self, jvm: Any, checkpoint: str, rest: str, token: str | None) -> None:
        spark = jvm.org.apache.spark
        self._configuration = spark.deploy.SparkHadoopUtil.get().newConfiguration(spark.SparkConf())
        self._path = jvm.org.apache.hadoop.fs.Path
        self._checkpoint = checkpoint
        self._rest, self._token = rest, token
        self._files = self._path(checkpoint).getFileSystem(self._configuration)

    def has_checkpoint(self) -> bool:
        """Whether a query has been started in it before."""
        return bool(self._files.exists(self._path(f"{self._checkpoint}/metadata")))

    def take(self, attempt: str, driver: str) -> str | None:
        """Claim an attempt for a driver; answers the other driver that has it, or ``None``.

        Raises :class:`OwnerUnknown`.
        """
        place = self._path(f"{self._checkpoint}/{CLAIMS}/{attempt}")
        if self._make(place, driver):
            return None
        owner = self._read(place)
        if owner == driver:
            return None
        if self._state(owner) not in _REPLACED:
            return owner
        self._write(place, driver, overwrite=True)
        return None

    def _make(self, place: Any, driver: str) -> bool:
        """Make the file unless it is there; atomic."""
        self._files.mkdirs(place.getParent())
        try:
            if self._files.getScheme() == "file":
                # Hadoop looks first and makes it then, on a local file system.
                _link(Path(self._files.makeQualified(place).toUri().getPath()), driver)
            else:
                self._write(place, driver, overwrite=False)
        except FileExistsError:
            return False
        except Py4JJavaError as error:
            if self._files.exists(place):
                return False
            raise OwnerUnknown(f"cannot claim its attempt at {place}: {error.java_exception}") from error
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
            raise OwnerUnknown(f"the claim at {place} is being written by another driver")
        return owner

    def _state(self, driver: str) -> str | None:
        url = f"{self._rest}/v1/submissions/status/{driver}"
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http, always
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                told = json.load(answer)
        except (OSError, ValueError) as error:
            raise OwnerUnknown(f"the master does not say whether {driver} works: {error}") from error
        state: str | None = told.get("driverState") if told.get("success") else None
        return state


def _link(place: Path, text: str) -> None:
    """Make a file with its content at once; raises :class:`FileExistsError`."""
    scratch = place.with_name(f".{place.name}.{text}")
    scratch.write_text(text, encoding="utf-8")
    try:
        os.link(scratch, place)
    finally:
        scratch.unlink()
