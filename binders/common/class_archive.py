"""Archives of the classes that an engine loads at its start (Java's class data sharing).

Loading them takes more than half of the processor time of a start.  An archive is valid for the jars of this
environment and for its Java: Java checks both, and starts without the archive if it does not match.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from speck.core.durable_files import put_in_place, scratch_beside
from speck.errors import LocalError

_PATIENCE = 180.0  # s
_EXIT_PATIENCE = 300.0  # s, for a program that was terminated to write its archive
# The programs run for less than a minute: the optimizing compiler would cost more than it saves.
_QUICK_START = ("-XX:TieredStopAtLevel=1",)


def archive_path(name: str) -> Path:
    """The path of the archive of this name, in the environment whose jars it was made of."""
    return Path(sys.prefix) / "share" / "speck" / f"{name}.jsa"


def options(name: str) -> tuple[str, ...]:
    """Java's options to use the archive; empty if there is none."""
    archive = archive_path(name)
    # Otherwise Java prints on standard output that an archive does not match.
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off") if archive.is_file() else ()


def make(
    programs: Mapping[str, Sequence[str]],
    environment: Mapping[str, str],
    directory: Path,
    exercise: Callable[[], None],
) -> None:
    """Run programs, exercise them so that they load their classes, and archive those as they exit.

    ``programs`` are command lines by the names of their archives, with the path of Java first, and without
    :func:`options`.  Files go below ``directory``.  Raises :class:`~speck.errors.LocalError`.
    """
    import subprocess  # not in an agent, which writes no archive

    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, (java, *arguments) in programs.items():
            with (directory / f"{name}.log").open("wb") as log:
                running[name] = subprocess.Popen(
                    [java, f"-XX:ArchiveClassesAtExit={directory / name}.jsa", *_QUICK_START, *arguments],
                    cwd=directory,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        exercise()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(_EXIT_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"a class archive was not written within {_EXIT_PATIENCE:.0f} s") from error
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    for name in programs:
        _move(directory / f"{name}.jsa", archive_path(name))


def _move(written: Path, to: Path) -> None:
    if not written.exists():
        raise LocalError(f"no class archive at {to}: the program wrote none")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: a program that starts meanwhile finds a whole archive or none.
        with scratch_beside(to) as scratch:
            shutil.move(written, scratch)
            put_in_place(scratch, to)
    except OSError as error:
        raise LocalError(f"no class archive at {to}: {error.strerror}") from error


def await_ready(what: str, ready: Callable[[], bool]) -> None:
    """Wait until ``ready()``.  Raises :class:`~speck.errors.LocalError` after three minutes."""
    deadline = time.monotonic() + _PATIENCE
    while not ready():
        if time.monotonic() > deadline:
            raise LocalError(f"{what} was not ready within {_PATIENCE:.0f} s: no class archive is written")
        time.sleep(0.1)
