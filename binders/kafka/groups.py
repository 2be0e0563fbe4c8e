"""The consumer groups of sessions: their places in topics, and members, which none of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from binders.kafka.client import Connected
from speck.errors import Rejected


def commit(connected: Connected, group: str, topic: str, place: Mapping[int, int]) -> None:
    """Set the place of a group in a topic: the offset of the next message, by partition."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    commits = {TopicPartition(topic, part): OffsetAndMetadata(at, "{}", None) for part, at in place.items()}
    _raise_first(connected.admin.alter_group_offsets(group, commits).values())


def forget(connected: Connected, group: str, topic: str, partitions: Iterable[int], *, is_last: bool) -> None:
    """Delete the place of a group in a topic; with its last place (``is_last``), the group goes."""
    from kafka import TopicPartition
    from kafka.errors import GroupIdNotFoundError, GroupSubscribedToTopicError

    if is_last:
        connected.admin.delete_groups([group])
        return
    try:
        connected.admin.delete_group_offsets(group, [TopicPartition(topic, each) for each in partitions])
    except (GroupIdNotFoundError, GroupSubscribedToTopicError):
        return


def reject_members(connected: Connected, group: str, address: str) -> None:
    """Raise :class:`~speck.errors.Rejected` for a group with members, which no session of SpecK's has."""
    found = connected.admin.describe_groups([group]).get(group, {})
    for member in found.get("members") or ():
        raise Rejected(
            f"{address}: group {group!r} is used by client {member.get('client_id')!r} at "
            f"{member.get('client_host')} (expected a group without members)",
            address=address,
        )


def _raise_first(errors: Iterable[Any]) -> None:
    from kafka.errors import NoError

    for error in errors:
        if error is not NoError and error is not None:
            raise error() if isinstance(error, type) else error
