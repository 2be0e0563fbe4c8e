"""The files that engines fetch from the coordinator, with the tokens that give access to them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from speck.binder import Artifact
from speck.core.durable_files import put_in_place, sync_directory, sync_file
from speck.core.names import is_sha256
from speck.errors import StoreError
from speck.store.artifacts import SCRATCH, FileCopy, hash_of, write_error
from speck.store.beginnings import Beginnings

_log = logging.getLogger(__name__)

# In a store's directory; a standby, whose files have the times of their copies, has none.
BEGINNINGS = "served/attempts.json"
_JUST_NOW = 3600.0  # s
_SPARED = 7 * 86_400.0  # s, for clocks that are set, and drivers without an attempt, as those that measure


@dataclass(frozen=True)
class ServedFiles:
    """The files that engines fetch, as ``HASH/NAME`` below ``served`` in the store's directory.

    See :class:`speck.binder.ArtifactServer`.  ``base`` is the coordinator's URL as engines reach it.  All
    tokens derive from ``secret`` in the store's directory, which only its owner can read.  ``copy`` is the
    standby's.  The time of change of a file is that of its last offer.
    """

    directory: Path
    base: str
    copy: FileCopy | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def offer(self, name: str, content: bytes) -> Artifact:
        """See :meth:`speck.binder.ArtifactServer.offer`."""
        sha256 = hashlib.sha256(content).hexdigest()
        place = self._place(sha256, name)
        path, opened = f"served/{sha256}/{name}", partial(BytesIO, content)
        try:
            with contextlib.nullcontext() if self.copy is None else self.copy.placing(path, opened, sha256):
                self._store(place, content, sha256)
        except OSError as error:
            raise write_error(error, f"{name} cannot be stored at {place}: {error}") from error
        signed = f"{sha256}/{self._token_of(sha256)}/{quote(name, safe='')}"
        url = f"{self.base.rstrip('/')}/artifacts/{signed}"
        return Artifact(name, sha256, url)

    def _store(self, place: Path, content: bytes, sha256: str) -> None:
        is_intact = hash_of(place) == sha256
        with self._guard:
            if is_intact and place.exists():
                os.utime(place)
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            with _scratch_file(place.parent, content) as scratch:
                put_in_place(scratch, place)

    def forget_unused(self, named: Collection[str], gone: Collection[str], attempts: Collection[str]) -> None:
        """Delete what no engine fetches any more.

        ``named`` are the hashes of the code that revisions name.  ``gone`` are those that none names any
        more, which go now, unless one was offered just now, as to build a job.  Anything else, as the
        launcher of a former version, goes once all ``attempts`` (their ids) began after its last offer.
        A fault of the disk is logged; what it leaves is deleted by a later call.
        """
        try:
            self._forget_unused(named, gone, attempts)
        except OSError as error:
            _log.warning("unused files that engines fetched are not deleted now: %s", error)

    def _forget_unused(
        self, named: Collection[str], gone: Collection[str], attempts: Collection[str]
    ) -> None:
        if not (folders := self._folders()):
            return
        now = time.time()
        bound = min(now, Beginnings(self.directory / BEGINNINGS).earliest(attempts, now)) - _SPARED
        for folder in folders:
            last = now - _JUST_NOW if folder.name in gone else bound
            with self._guard:
                if folder.name not in named and _last_change(folder) < last:
                    shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        served = self.directory / "served"
        return [each for each in served.iterdir() if is_sha256(each.name)] if served.is_dir() else []

    def find(self, sha256: str, token: str, name: str) -> Path | None:
        """The file that this token gives access to; ``None`` if there is none."""
        if not is_sha256(sha256) or name in (".", "..") or "/" in name:
            return None
        allowed = hmac.compare_digest(token.encode(), self._token_of(sha256).encode())
        place = self._place(sha256, name)
        return place if allowed and place.is_file() else None

    def token(self, purpose: str) -> str:
        """See :meth:`speck.binder.ArtifactServer.token`."""
        return hmac.new(self._secret(), purpose.encode(), hashlib.sha256).hexdigest()

    def _token_of(self, sha256: str) -> str:
        return self.token(f"artifact:{sha256}")

    def _place(self, sha256: str, name: str) -> Path:
        return self.directory.absolute() / "served" / sha256 / name

    def _secret(self) -> bytes:
        path = self.directory / "secret"
        try:
            if not path.exists():
                with (
                    _scratch_file(self.directory, secrets.token_bytes(32)) as scratch,
                    contextlib.suppress(FileExistsError),
                ):
                    sync_file(scratch)
                    os.link(scratch, path)  # of two processes, the first one's stays
                    sync_directory(self.directory)
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"the secret {path} cannot be read: {error}") from error


@contextlib.contextmanager
def _scratch_file(directory: Path, content: bytes) -> Iterator[Path]:
    """A complete file that only its owner can read, to be moved or linked to its place."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=SCRATCH)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _last_change(folder: Path) -> float:
    """The last change of a folder or of a file in it (Unix time, s).  Raises ``OSError``."""
    return max(each.stat().st_mtime for each in (folder, *folder.iterdir()))
