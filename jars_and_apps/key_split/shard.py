"""The base of the operators that keep a state for each shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from jars_and_apps.key_split.reports import report
from jars_and_apps.key_split.settings import CombinerSetting, Output, ReducerSetting
from jars_and_apps.key_split.slides import NEVER
from jars_and_apps.key_split.state import Values, pack, unpack

SettingT = TypeVar("SettingT", CombinerSetting, ReducerSetting)


class Shard(Generic[SettingT]):
    """One shard of an operator: its setting, its faults since the state began, its last step in numbers."""

    KIND: ClassVar[str]

    def __init__(self, setting: SettingT) -> None:
        self._setting: SettingT = setting
        self._windows = setting.windows
        self._faults: Counter[str] = Counter()
        self._fields: dict[str, Any] = {}
        self._bytes = 0

    @classmethod
    def begin(cls, setting: SettingT) -> Self:
        """An operator that has seen nothing."""
        return cls(setting)

    @classmethod
    def _unpack(cls, setting: SettingT, data: bytes) -> tuple[Self, dict[str, Any], dict[str, Any]]:
        """A new operator with the faults of a dumped one, and the rest of its state as it was packed."""
        meta, values = unpack(cls.KIND, setting.windows, data)
        found = cls(setting)
        found._faults = Counter(meta["faults"])
        return found, meta, values

    def _pack(self, meta: Mapping[str, Any], values: Mapping[str, Values]) -> bytes:
        data = pack(self.KIND, self._windows, {**meta, "faults": self._faults}, values)
        self._bytes = len(data)
        return data

    def _report(self, part: str, closed: int, states: int, busy: float, wall: float) -> Output:
        """The report of the last step; ``closed`` is the end of the last window that is closed."""
        closed_us = None if closed == NEVER else closed * self._windows.slide_us
        fields = {"shard": self._setting.shard, **self._fields, "states": states}
        fields |= {"state_bytes": self._bytes, "closed_us": closed_us}
        return report(part, fields, self._faults, busy, wall)
