"""Places in logs whose end a broker has lost: other records may have the offsets of the lost ones.

A place has the leader epoch of the record before it.  A broker that has other records there reports where
those of that epoch end now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from binders.kafka.client import Connected
from binders.kafka.control_log import describe


class EpochOf(NamedTuple):
    """A leader epoch of a partition."""

    topic: str
    partition: int
    epoch: int


def kept_offset(offset: int, end: int | None) -> int:
    """The offset up to which a log still has what was read up to ``offset``.

    ``end`` is that of the records of the epoch; ``None`` or -1 if it is not known.
    """
    return offset if end is None or end < 0 else min(offset, end)


def former_epochs(described: Iterable[Mapping[str, Any]], epochs: Iterable[EpochOf]) -> dict[EpochOf, int]:
    """The epochs that are older than those of the partitions' leaders, with the nodes of these.

    A log loses its end only when its leader changes.
    """
    leaders = {
        (topic["name"], each["partition_index"]): (each["leader_epoch"], each["leader_id"])
        for topic in described
        if not topic["error_code"]
        for each in topic["partitions"]
    }
    found = {}
    for each in epochs:
        epoch, node = leaders.get((each.topic, each.partition), (-1, -1))
        if 0 <= each.epoch < epoch and node >= 0:
            found[each] = node
    return found


def epoch_ends(connected: Connected, epochs: Collection[EpochOf]) -> dict[EpochOf, int]:
    """The offset behind the last record of each epoch, or of an older one, as far as the broker knows it.

    Epochs that are not known, or are those of the present leaders, are left out.
    """
    known = {each for each in epochs if each.epoch >= 0}
    topics = sorted({each.topic for each in known})
    former = former_epochs(describe(connected, *topics), known) if topics else {}
    requests: dict[tuple[int, int], list[EpochOf]] = defaultdict(list)
    for each, node in former.items():
        requests[node, each.epoch].append(each)
    found: dict[EpochOf, int] = {}
    for (node, epoch), of_epoch in requests.items():
        found.update(_ends(connected, node, epoch, of_epoch))
    return found


def _ends(connected: Connected, node: int, epoch: int, of_epoch: Iterable[EpochOf]) -> dict[EpochOf, int]:
    from kafka.errors import IncompatibleBrokerVersion
    from kafka.protocol.consumer import OffsetForLeaderEpochRequest

    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition_type = topic_type.OffsetForLeaderPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for each in of_epoch:
        by_topic[each.topic].append(
            partition_type(partition=each.partition, current_leader_epoch=-1, leader_epoch=epoch)
        )
    topics = [topic_type(topic=topic, partitions=parts) for topic, parts in by_topic.items()]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    # The client has no public call for this request; its exact version is required in setup.cfg.
    manager = connected.admin._manager

    async def ask() -> Any:
        return await manager.send(request, node_id=node)

    try:
        return dict(_answered(manager.run(ask), epoch))
    except IncompatibleBrokerVersion:  # readers cannot ask such a broker either
        return {}


def _answered(response: Any, epoch: int) -> Iterator[tuple[EpochOf, int]]:
    from kafka.errors import NoError, for_code

    for topic in response.topics:
        for each in topic.partitions:
            error = for_code(each.error_code)
            if error is not NoError:
                raise error(f"topic {topic.topic!r} partition {each.partition}: the end of an epoch")
            yield EpochOf(topic.topic, each.partition, epoch), each.end_offset
