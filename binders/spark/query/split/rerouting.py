"""A router whose routing is changed: the first batch of the new form is still routed as before.

That batch may be one that the former form has begun: its frames are partly written, and are recognised by
their numbers.  Routed anew, a row could be in the frames of two combiners, or of none.  So the state of a
partitioner has the routing in front: JSON, with its length (four bytes, big-endian).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from jars_and_apps.key_split.partitioners.protocol import Partitioner
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import Output, RouterSetting

_LENGTH = 4  # bytes
_FIELDS = ("name", "weights", "seed", "options", "shards", "measured", "policies")
_LISTS = ("weights", "shards", "policies")

Lookup = Callable[[str], type[Partitioner]]


@dataclass
class RoutedRouter:
    """A router, and the setting that holds from its next batch on."""

    router: Router
    setting: RouterSetting
    changes: bool = False

    @classmethod
    def begin(cls, setting: RouterSetting) -> Self:
        """A router that has seen no row."""
        return cls(Router.begin(setting), setting)

    @classmethod
    def load(cls, setting: RouterSetting, data: bytes, partitioner_of: Lookup) -> Self:
        """The router whose state was dumped, with the routing that it had then; ValueError as of Router."""
        start = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        former = json.loads(data[_LENGTH:start])
        if former == _routing(setting):
            return cls(Router.load(setting, data[start:]), setting)
        lists = {name: tuple(former.get(name, ())) for name in _LISTS}
        before = replace(setting, **former | lists, partitioner=partitioner_of(former["name"]))
        return cls(Router.load(before, data[start:]), setting, changes=True)

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """The frames for the rows of the next batch."""
        return self.router.step(batch)

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step."""
        return self.router.report(busy, wall)

    def dump(self) -> bytes:
        """The state; ValueError if the new setting cannot continue from the former one's."""
        data = self.router.dump()
        if self.changes:
            data = Router.load(self.setting, data).dump()
        head = json.dumps(_routing(self.setting)).encode()
        return len(head).to_bytes(_LENGTH, "big") + head + data


def _routing(setting: RouterSetting) -> dict[str, Any]:
    """The routing as JSON."""
    found = {name: getattr(setting, name) for name in _FIELDS}
    lists = {name: list(found[name]) for name in _LISTS}
    return found | lists | {"options": dict(setting.options)}
