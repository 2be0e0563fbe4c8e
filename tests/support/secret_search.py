"""Searches for secrets in files, answers, command lines and environments of processes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tarfile
import threading
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType

import plyvel
import psutil


class Search:
    """Searches one content after the other for the same secrets; ``found`` lists the places."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """``secrets`` by names for people."""
        self.found: list[str] = []
        self.searched = 0
        self._needles = {name: [secret.encode(), *_in_base_64(secret)] for name, secret in secrets.items()}

    def names_in(self, content: bytes) -> list[str]:
        """The names of the secrets that a content holds."""
        return [name for name, forms in self._needles.items() if any(form in content for form in forms)]

    def search(self, where: str, content: bytes | str) -> None:
        """Search a content, and the content that it compresses."""
        data = content.encode() if isinstance(content, str) else content
        self.searched += 1
        self.found += [f"{name} in {where}" for name in self.names_in(data)]
        if data[:2] == b"\x1f\x8b":
            self.search(f"{where} (unpacked)", gzip.decompress(data))

    def search_below(self, directory: Path) -> None:
        """Search all files of a directory."""
        for path in directory.rglob("*"):
            if path.is_file():
                self.search(str(path.relative_to(directory)), path.read_bytes())

    def search_database(self, directory: Path) -> None:
        """Search the records of a store, whose files may be compressed."""
        database = plyvel.DB(str(directory))
        try:
            for key, value in database:
                self.search(f"record {key!r}", key + b" " + value)
        finally:
            database.close()

    def search_tar(self, where: str, content: bytes) -> None:
        """Search each file of an archive."""
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                self.search(f"{member.name} of {where}", file.read() if file else b"")


def _in_base_64(secret: str) -> Iterator[bytes]:
    """The middle characters of the secret, wherever in an encoded text it stands."""
    for shift in range(3):
        yield base64.b64encode(b" " * shift + secret.encode())[4 * bool(shift) : -4]


class Processes:
    """Searches all command lines while its block runs, and one process's children and temporary files."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._top: int | None = None
        self._scratch: Path | None = None
        self._seen: set[tuple[int, str, bytes]] = set()
        self._files: set[tuple[str, int, int]] = set()  # with their sizes and times of change
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def below(self, pid: int, scratch: Path) -> None:
        """Search the environments of the children of this process, too, and its temporary files."""
        self._top, self._scratch = pid, scratch

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        rounds = 0
        while not self._over.wait(0.1):
            rounds += 1
            for pid in psutil.pids():
                self._find(pid, "cmdline")
            for pid in self._children() if rounds % 5 == 0 else ():
                if _command(pid) != _command(self._top):  # else it is not yet the program that it will be
                    self._find(pid, "environ")
            for path in self._scratch.rglob("*") if self._scratch else ():
                self._search_into(path)

    def _children(self) -> list[int]:
        if self._top is None:
            return []
        try:
            return [each.pid for each in psutil.Process(self._top).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _search_into(self, path: Path) -> None:
        try:
            found = path.stat()
            if (known := (str(path), found.st_size, found.st_mtime_ns)) in self._files:
                return
            content = path.read_bytes()
        except OSError:
            return  # a directory, or deleted meanwhile
        self._files.add(known)
        seen = (0, str(path), hashlib.sha256(content).digest())
        if seen not in self._seen:
            self._seen.add(seen)
            self._search.search(f"temporary file {path.name}", content)

    def _find(self, pid: int, what: str) -> None:
        try:
            shown = Path(f"/proc/{pid}/{what}").read_bytes()
        except OSError:
            return  # it has ended, or is another user's
        if (pid, what, shown) not in self._seen:
            self._seen.add((pid, what, shown))
            self._search.search(f"{what} of process {pid}: {shown[:80]!r}", shown)


def _command(pid: int | None) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
