"""The file that is uploaded to a cluster for a job: its jar, or a jar that contains its Python file.

Flink accepts jars only, and a jar is a zip archive: it contains the user's file and :mod:`speck_flink`, and
Python on the JobManager's machine imports both from there.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from speck.core.job import Job
from speck.errors import Rejected

PYTHON = ".py"
PROGRAMS = "speck_program"  # the package of the user's file, which so hides no other module of its name

_RUNTIME = Path(__file__).resolve().parents[1] / "speck_flink"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Package:
    """A jar to be uploaded.

    ``content`` (a file, or bytes) is uploaded as ``code``.jar; ``code`` is its SHA-256, hexadecimal.
    """

    code: str
    content: Path | bytes


def is_python(job: Job) -> bool:
    """True if the job is a Python program."""
    return Path(job.job_path).suffix.lower() == PYTHON


def package_of(job: Job) -> Package:
    """The package of a job's code.  Raises :class:`~speck.errors.Rejected` if its file cannot be read."""
    path = Path(job.job_path)
    try:
        if is_python(job):
            content = _bundle(path.read_bytes(), module_of(path))
            return Package(hashlib.sha256(content).hexdigest(), content)
        return Package(job.code_hash or _hash(path), path)
    except OSError as error:
        raise Rejected(
            f"job {job.job_name!r}: job_path {job.job_path!r} cannot be read: {error.strerror}"
        ) from error


def module_of(path: Path) -> str:
    """The name of a file's module in the package: its stem, with characters but ASCII word ones replaced."""
    return re.sub(r"\W", "_", path.stem, flags=re.ASCII)


@functools.lru_cache(maxsize=64)
def _bundle(source: bytes, module: str) -> bytes:
    """The archive with a program; reproducible byte by byte from the same sources."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for module_file in sorted(_RUNTIME.glob("*.py")):
            archive.writestr(_entry(f"{_RUNTIME.name}/{module_file.name}"), module_file.read_bytes())
        archive.writestr(_entry(f"{PROGRAMS}/__init__.py"), b"")
        archive.writestr(_entry(f"{PROGRAMS}/{module}.py"), source)
    return content.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _FIXED_DATE)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
