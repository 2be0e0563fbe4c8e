"""The chain that is deployed: pass-through jobs one behind the other, in turn over the sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

NAME = "chain"


@dataclass(frozen=True)
class Program:
    """The code of every job of the chain: a file below the root of the repository, and its entry."""

    engine: str
    job_path: str
    entry_class: str


@dataclass(frozen=True)
class Place:
    """A site as a benchmark reaches it, through its link: addresses of its engine and its broker.

    ``known`` is what an inventory says of the engine besides.
    """

    engine: str
    broker: str
    known: Mapping[str, Any]


@dataclass(frozen=True)
class Chain:
    """``length`` jobs; the first ``modified`` of them are at ``version``, the others as they were first."""

    program: Program
    places: Sequence[Place]
    length: int
    modified: int = 0
    version: int = 0

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs, as a composition has them."""
        return [self._job(number) for number in range(self.length)]

    def text(self) -> bytes:
        """The composition's YAML text."""
        return yaml.dump(
            {"name": NAME, "jobs": self.jobs()}, Dumper=yaml.CSafeDumper, sort_keys=False
        ).encode()

    def _job(self, number: int) -> dict[str, Any]:
        place, following = (self.places[each % len(self.places)] for each in (number, number + 1))
        arguments: Mapping[str, str] = {"site": f"v{self.version}"} if number < self.modified else {}
        return {
            "job_name": f"hop-{number}",
            "spe_address": place.engine,
            "engine": self.program.engine,
            "source_broker": place.broker,
            "source_topic": f"chain/{number}",
            "sink_broker": following.broker,
            "sink_topic": f"chain/{number + 1}",
            "entry_class": self.program.entry_class,
            "job_path": self.program.job_path,
            **({"arguments": dict(arguments)} if arguments else {}),
        }
