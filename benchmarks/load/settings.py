"""Settings of engines on this machine that benchmarks undo, one at a time, to see what each is worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from binders.common import process_group
from speck.binder import LocalServer, Registry


@dataclass(frozen=True)
class Change:
    """A change of an engine's command line: words that begin so are removed, others are added."""

    remove: tuple[str, ...] = ()
    jvm: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def applied(self, command: Sequence[str]) -> list[str]:
        """The changed command line."""
        words = [word for word in command if not word.startswith(self.remove or ("\0",))]
        at = words.index("-cp")
        words[at:at] = self.jvm  # the last of several counts
        end = len(words) - (words[-1] == "spark-internal")
        words[end:end] = self.arguments
        return words


# By engine, and by the setting that each change undoes.
SETTINGS: Mapping[str, Mapping[str, Change]] = {
    "spark-connect": {
        "class archive": Change(remove=("-XX:SharedArchiveFile=",)),
        # Of two values of a setting, the last one counts.
        "session extensions": Change(arguments=("--conf", "spark.sql.extensions.test.loadFromCp=true")),
    },
    "flink-small": {
        "class archive": Change(remove=("-XX:SharedArchiveFile=",)),
        "network buffers": Change(
            arguments=tuple(f"-Dtaskmanager.memory.network.{bound}=64mb" for bound in ("min", "max"))
        ),
    },
}


def filled(command: Sequence[str]) -> list[str]:
    """The command line of an engine whose Java heaps are full from its start, as they are at most."""
    if process_group.__name__ in command:
        return process_group.command([filled(program) for program in json.loads(command[-1])])
    end = command.index("-cp")
    heap = next(word for word in reversed(command[:end]) if word.startswith("-Xmx")).removeprefix("-Xmx")
    return [*command[:end], f"-Xms{heap}", "-XX:+AlwaysPreTouch", *command[end:]]


def optimised(command: Sequence[str]) -> list[str]:
    """The command line of an engine with Java's optimising compiler, as all but local ones run."""
    if process_group.__name__ in command:
        return process_group.command([optimised(program) for program in json.loads(command[-1])])
    return [word for word in command if word != "-XX:TieredStopAtLevel=1"]


class Changed:
    """A server whose command line is changed."""

    def __init__(self, server: LocalServer, change: Callable[[Sequence[str]], list[str]]) -> None:
        self._server, self._change = server, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        command, environment = self._server.command(ports, directory, heap)
        return self._change(command), environment


def changed(registry: Registry, engine: str, change: Callable[[Sequence[str]], list[str]]) -> Registry:
    """The registry with a change of the command line of the engine of this name."""
    server = cast(LocalServer, Changed(registry.local_engines()[engine], change))
    kinds = (
        replace(kind, local=server)
        if kind.name == engine
        else replace(kind, forms={**kind.forms, engine: server})
        if engine in kind.forms
        else kind
        for kind in registry.engines
    )
    return Registry.of([*kinds, *registry.brokers])
