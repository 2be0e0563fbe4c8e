"""The settings and outputs of the operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.partitioners.protocol import Partitioner
from jars_and_apps.key_split.slides import Windows


class Output(NamedTuple):
    """A message that an operator writes.

    ``topic`` is a suffix: ``rows/W``, ``partials``, ``report/...``, all below ``speck/split/NAME/``, or empty
    for the sink topic.
    """

    topic: str
    value: bytes


@dataclass(frozen=True, slots=True)
class RouterSetting:
    """The parameters of a Router.

    ``weights``: the workers' shares, one a worker.  ``policies``: trained ones of the partitioner, files as
    Base64.  ``shards``: the groups of keys of each combiner (empty: one each).  ``measured``: the partitioner
    takes measured speeds in place of the weights.  ``origin`` names the attempt that begins a state; a loaded
    state keeps its own.  ``name`` is the partitioner's, compared with that of a loaded state.  ``succeeds``:
    a router came before whose state is lost, and whose windows are partly out.
    """

    windows: Windows
    name: str
    partitioner: type[Partitioner]
    weights: tuple[float, ...]
    seed: int = 0
    options: Mapping[str, float] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    shards: tuple[int, ...] = ()
    measured: bool = False
    origin: str = ""
    succeeds: bool = False

    def __post_init__(self) -> None:
        if self.shards and len(self.shards) != len(self.weights):
            raise ValueError(
                f"shards of {len(self.shards)} workers (expected {len(self.weights)}, as of weights)"
            )


@dataclass(frozen=True, slots=True)
class CombinerSetting:
    """The parameters of one shard of combiner ``worker``; ``reducer_shards``: those of the reducer.

    ``columns`` are the names and types of the columns of its rows, as ``frames.columns_of`` has them: others
    in frames are left out.  Without any, all columns are taken.
    """

    windows: Windows
    aggregation: Aggregation
    worker: int
    shard: int = 0
    reducer_shards: int = 1
    origin: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReducerSetting:
    """The parameters of one shard of the reducer, or of the Collector in one job."""

    windows: Windows
    aggregation: Aggregation
    shard: int = 0
