"""The declared part of placement: the block ``placement`` of a composition and ``expects`` of a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = "any"  # as ``site`` of a job: every site with an engine of its kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Expects:
    """The load that the author of a job expects, in force until it is measured; ``None``: not given.

    ``rate`` is messages/s into the job, ``bytes`` the size of an output message, ``cost`` processor time of a
    reference core, s a message; ``selectivity`` messages out per message in; ``state`` bytes.
    """

    rate: float | None = None
    bytes: float | None = None
    cost: float | None = None
    selectivity: float | None = None
    state: float | None = None

    def to_dict(self) -> dict[str, float]:
        """The given values as plain data."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Expects:
        """The inverse of :meth:`to_dict`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """The block ``placement`` of a composition.

    ``mode`` is ``advise``, ``auto`` or ``off``; ``policy`` the name of a placement policy.  ``latency``,
    ``wan`` and ``cores`` are the weights of the objective; ``utilisation`` is the target share of each site;
    ``max_age`` bounds the 95th percentile of the age of every result, s; ``max_wan`` is bytes/s of the
    composition per uplink; ``stamps`` is the form that stamps have on the wire, ``text`` or ``compact``.  The
    others are for ``auto`` alone: ``min_gain`` is a share, ``cooldown`` and
    ``horizon`` are in s, ``steps_per_hour`` is a number, ``group`` the largest number of jobs in one step.
    """

    mode: str = "advise"
    policy: str = "speck"
    latency: float = 0.5
    wan: float = 0.4
    cores: float = 0.1
    utilisation: float = 0.7
    max_age: float | None = None
    max_wan: float | None = None
    stamps: str = "text"
    min_gain: float = 0.15
    cooldown: float = 300.0
    horizon: float = 3600.0
    steps_per_hour: int = 6
    group: int = 6

    def to_dict(self) -> dict[str, Any]:
        """The values that differ from the defaults, as plain data."""
        defaults = PlacementOptions()
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value != getattr(defaults, name)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PlacementOptions:
        """The inverse of :meth:`to_dict`."""
        return cls(**data)
