"""The road-traffic demo: 17 jobs on four sites, edited while data flows, every vehicle counted.

Everything is real: :mod:`speck.local` starts engines and brokers, the server is a process of its own reached
over REST, and the road-traffic programs replay the input.  The numbers of input and output are compared; the
exit code is 0 when they agree.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from speck.cli.demo.adapted import AdaptedDemo
from speck.cli.demo.alone import AloneDemo
from speck.cli.demo.fences import FencesDemo
from speck.cli.demo.hot import HotDemo
from speck.cli.demo.kafka import KafkaDemo
from speck.cli.demo.mixed import MixedDemo
from speck.cli.demo.placed import PlacedDemo
from speck.cli.demo.stages import INTERRUPTED, Counts, Demo, DemoOptions

__all__ = ["KINDS", "Counts", "DemoOptions", "run_demo"]

KINDS: Mapping[str, type[Demo]] = {
    "": Demo,
    "mixed": MixedDemo,
    "kafka": KafkaDemo,
    "place": PlacedDemo,
    "adapt": AdaptedDemo,
    "hot": HotDemo,
    "fences": FencesDemo,
    "alone": AloneDemo,
}


def run_demo(options: DemoOptions) -> int:
    """Run the demo; returns the exit code: 0 when the counts agree, 1 when not, 130 when interrupted.

    All processes are stopped in the end, unless ``options.keep``.  Raises :class:`SpeckError`.
    """
    console = Console(stderr=options.as_json, soft_wrap=True, highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="speck-demo-"))
    cleanup = ExitStack()
    try:
        with _handled(_interrupt):
            kind = KINDS[options.kind]
            return kind(options, directory, kind.view(console), cleanup).run()
    except KeyboardInterrupt:
        console.print("interrupted; stopping all processes")
        return INTERRUPTED
    finally:
        # Another Ctrl-C does not cut this short.
        with _handled(signal.SIG_IGN):
            cleanup.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
        numbers.append(signal.SIGHUP)
    try:
        before = [signal.signal(number, handler) for number in numbers]
    except ValueError:  # not in the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)
