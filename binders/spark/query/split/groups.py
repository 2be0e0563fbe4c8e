"""Numbers of groups that Spark's hash gives evenly to the tasks of a stateful operator."""

from __future__ import annotations

from collections.abc import Sequence

_SEED = 42  # of HashPartitioning
_MASK = 2**32 - 1


def group_keys(shards: int, tasks: int) -> Sequence[int]:
    """A key for each shard, such that shard ``s`` is processed by task ``s % tasks``; the same for all time.

    Spark gives a group to the task ``pmod(hash(key), tasks)``: consecutive numbers would leave tasks without
    a group.
    """
    keys: list[int] = []
    used: set[int] = set()
    for shard in range(shards):
        key = 0
        while key in used or hash_of(key) % tasks != shard % tasks:
            key += 1
        used.add(key)
        keys.append(key)
    return keys


def hash_of(value: int) -> int:
    """Spark's ``hash`` of a 32-bit integer: MurmurHash3_x86_32 (Appleby, 2011), as a signed number."""
    mixed = value * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    mixed ^= 4  # bytes
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    mixed ^= mixed >> 16
    return mixed - 2**32 if mixed >= 2**31 else mixed


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
