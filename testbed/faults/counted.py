"""``speck`` itself, with a counter at every point where a crash could leave something half done.

::

    python -m testbed.faults.counted --kill-at 17 --seed 3 --report FILE -- serve --port 0 ...

Points are before and after every write to the store, every call of a binder, every HTTP request and every
verb of MQTT, and before every change of a file.  They are found by wrapping what all of these go through, so
that whatever SpecK comes to do is counted without being listed here.  At number ``--kill-at`` the process
kills itself by SIGKILL: nothing is flushed, nothing is said goodbye to.  The report has the names of the
points that were passed, one on a line.
"""

from __future__ import annotations

import argparse
import inspect
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import plyvel
import requests.adapters

from speck.binder import BrokerKind, EngineKind, Registry
from speck.cli import main as speck

_LONGEST = 0.03  # s, after which a call that has begun is killed at the latest

_CHANGES_OF_FILES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree"})


class Points:
    """Counts, writes down, and kills at the number that was asked for (0: never)."""

    def __init__(self, kill_at: int, seed: int, report: int) -> None:
        self._kill_at, self._report = kill_at, report
        self._pause = random.Random(seed).uniform(0, _LONGEST)
        self._count = 0
        self._guard = threading.Lock()

    def reach(self, name: str) -> None:
        """This is a point."""
        if self._is_the_one(name):
            _die()

    def within(self, name: str) -> None:
        """Mark the operation that begins now as one to be killed while it runs."""
        if self._is_the_one(name):
            threading.Thread(target=self._die_later, daemon=True).start()

    def around(self, name: str, call: Callable[..., Any], *, whole: bool = True) -> Callable[..., Any]:
        """The same call, with a point before and one after; ``whole``: and one within."""

        @wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.reach(f"before {name}")
            if whole:
                self.within(f"within {name}")
            try:
                return call(*arguments, **named)
            finally:
                self.reach(f"after {name}")

        return counted

    def _is_the_one(self, name: str) -> bool:
        with self._guard:
            self._count += 1
            os.write(self._report, f"{name}\n".encode())
            return self._count == self._kill_at

    def _die_later(self) -> None:
        time.sleep(self._pause)
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way; nothing more is done


def count_store(points: Points) -> None:
    """Every write that LevelDB is asked for."""
    original = plyvel.DB

    class Batch:
        def __init__(self, batch: Any) -> None:
            self._batch = batch
            self.write = points.around("store write", batch.write, whole=False)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._batch, name)

        def __enter__(self) -> Batch:
            return self

        def __exit__(self, kind: object, error: object, trace: object) -> None:
            if error is None:
                self.write()

    class Database:
        def __init__(self, *arguments: Any, **named: Any) -> None:
            self._db = original(*arguments, **named)
            for name in ("put", "delete"):
                setattr(self, name, points.around(f"store {name}", getattr(self._db, name), whole=False))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._db, name)

        def write_batch(self, *arguments: Any, **named: Any) -> Batch:
            return Batch(self._db.write_batch(*arguments, **named))

    plyvel.DB = Database


def count_binders(points: Points) -> None:
    """Every call of a method of any binder of the registry."""
    original = Registry.of

    def counted_kind(kind: Any) -> Any:
        if not isinstance(kind, EngineKind | BrokerKind):
            return kind

        def connect(*arguments: Any) -> Any:
            return _counted_binder(points, kind.name, kind.connect(*arguments))

        return replace(kind, connect=connect)  # type: ignore[arg-type]

    def of(kinds: Iterable[Any]) -> Registry:
        return original(counted_kind(each) for each in kinds)

    Registry.of = staticmethod(of)  # type: ignore[method-assign]


def _counted_binder(points: Points, kind: str, binder: Any) -> Any:
    for name, method in inspect.getmembers(binder, inspect.ismethod):
        if not name.startswith("_"):
            setattr(binder, name, points.around(f"{kind} {name}", method))
    return binder


def count_wires(points: Points) -> None:
    """Every HTTP request that SpecK makes, and every packet of MQTT that it means to send."""
    send = requests.adapters.HTTPAdapter.send

    def counted_send(self: Any, request: Any, **named: Any) -> Any:
        name = f"{request.method} {_anonymous(request.path_url)}"
        changes = request.method != "GET"
        points.reach(f"before {name}")
        if changes:
            points.within(f"within {name}")
        answer = send(self, request, **named)
        if changes:
            points.reach(f"after {name}")
        return answer

    requests.adapters.HTTPAdapter.send = counted_send  # type: ignore[method-assign,assignment]
    for verb in ("connect", "publish", "subscribe", "unsubscribe", "disconnect"):
        setattr(paho.Client, verb, points.around(f"mqtt {verb}", getattr(paho.Client, verb), whole=False))


def _anonymous(path: str) -> str:
    """A path without the ids in it."""
    parts = path.partition("?")[0].split("/")
    return "/".join("ID" if sum(each.isdigit() for each in part) > 3 else part for part in parts)


def count_files(points: Points, directory: Path) -> None:
    """Every change of a file below a directory that Python makes, before it is made."""
    inside = str(directory.absolute())

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        if event not in _CHANGES_OF_FILES and not flags & (os.O_WRONLY | os.O_RDWR):
            return
        with suppress(TypeError, ValueError):
            if str(Path(os.fsdecode(arguments[0])).absolute()).startswith(inside):
                points.reach(f"before file {event}")

    sys.addaudithook(hook)


def main() -> None:
    """Count, and run ``speck`` with what stands after ``--``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--files", type=Path, required=True, help="the directory whose files are watched")
    parser.add_argument("speck", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    report = os.open(options.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    points = Points(options.kill_at, options.seed, report)
    count_store(points)
    count_binders(points)
    count_wires(points)
    count_files(points, options.files)
    sys.argv = ["speck", *options.speck[1:]]
    speck()


if __name__ == "__main__":
    main()
