"""Programs that start servers, and stop them however they are ended.

A signal ends Python at once by default, without the ``finally`` blocks that stop what was started.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from types import FrameType
from typing import Any, NoReturn, TypeVar

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

_T = TypeVar("_T")


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run the main function of a program, and exit with its result.

    SIGTERM, SIGINT and SIGHUP raise :class:`SystemExit` with 128 plus their number in it, so that its blocks
    end what they started; later ones do not cut that short.  A SIGHUP that is ignored (``nohup``) stays so.
    A shell without job control has SIGINT ignored by what it starts in the background; it counts here too.
    """
    _raise_at_signals()
    sys.exit(main())


def _raise_at_signals() -> None:
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def call(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run another such program to its end, as :func:`subprocess.run` does, with text.

    If this one is ended meanwhile, so is the other, with time to stop its servers: ``subprocess.run`` would
    kill it.
    """
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def alone(function: Callable[..., _T], *arguments: object) -> _T:
    """The result of a call in a new process of its own, as memory is measured.

    If this one is ended meanwhile, so is the other: the pool would wait until the call returns.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_raise_at_signals) as pool:
        with held_back():
            result = pool.submit(function, *arguments)
        try:
            return result.result()
        except BaseException:
            for each in active_children():
                each.terminate()
            raise


@contextmanager
def held_back() -> Iterator[None]:
    """Let the signals that are handled wait for the end of the block.

    Their handlers raise an exception: between the start of a process and the assignment that makes it known,
    the process would never be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs there
        return
    held: list[int] = []
    handlers = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in held:
            signal.raise_signal(each)


def _end(number: int, frame: FrameType | None) -> None:
    for each in _ENDING:
        # Not SIG_IGN, which programs that are started to stop others would inherit.
        signal.signal(each, _nothing)
    raise SystemExit(128 + number)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing."""
