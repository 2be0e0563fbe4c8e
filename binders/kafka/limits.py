"""The settings of a cluster by which jobs lose messages or their place, as the cluster states them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from binders.kafka.client import Connected
from binders.kafka.control_log import describe
from speck.core.job import Scalar
from speck.core.runtime import Checkup, Complaint

_MIN_MESSAGE = 64 * 1024  # bytes; a job's messages have values of some KB, and stamps
_MIN_KEPT = 24 * 60  # minutes, for which the place of a job that is away must stay

_LIMITS: Mapping[str, str] = {
    "message.max.bytes": "message_bytes",
    "default.replication.factor": "replicas",
    "min.insync.replicas": "min_insync",
}
_KEPT = "offsets.retention.minutes"
_TIME, _AHEAD = "log.message.timestamp.type", "log.message.timestamp.after.max.ms"
_MAX_AHEAD = 3_600_000  # ms, the default of Kafka 4; before, there was no bound
Settings = Mapping[str, str | None]


def checkup(connected: Connected, topics: Collection[str]) -> Checkup:
    """The cluster's version, limits and complaints; ``topics`` are those that jobs read."""
    cluster = connected.admin.describe_cluster()
    brokers = cluster["brokers"]
    known = describe(connected, *sorted(topics)) if topics else []
    names = [each["name"] for each in known if not each["error_code"]]
    broker = str(brokers[0]["broker_id"])
    settings = _described(connected, {"BROKER": [broker], "TOPIC": names})
    of_cluster = settings.get(("broker", broker), {})
    return Checkup(
        version=f"Kafka, cluster {cluster['cluster_id']}",
        limits={"brokers": len(brokers)} | limits(of_cluster),
        complaints=(
            *cluster_complaints(of_cluster, len(brokers)),
            *(each for name in names for each in topic_complaints(name, settings.get(("topic", name), {}))),
        ),
    )


def limits(settings: Settings) -> dict[str, Scalar]:
    """The limits of a cluster for display; sizes in bytes, ``places_kept_days`` is of a job that is away."""
    found: dict[str, Scalar] = {
        shown: int(value) for name, shown in _LIMITS.items() if (value := settings.get(name))
    }
    if minutes := settings.get(_KEPT):
        found["places_kept_days"] = round(int(minutes) / 1440, 2)
    return found


def cluster_complaints(settings: Settings, brokers: int) -> Iterator[Complaint]:
    """The faults of a cluster's settings, and remarks on them."""
    size, minutes = settings.get("message.max.bytes"), settings.get(_KEPT)
    if size and int(size) < _MIN_MESSAGE:
        yield Complaint(
            f"it rejects messages above {size} bytes (expected at least {_MIN_MESSAGE})",
            "raise message.max.bytes",
        )
    if minutes and int(minutes) < _MIN_KEPT:
        yield Complaint(
            f"it deletes the place of a job that is away for {minutes} minutes (expected at least a day)",
            "raise offsets.retention.minutes",
        )
    if settings.get("unclean.leader.election.enable") == "true":
        yield Complaint(
            "a replica without acknowledged messages may become the leader, which loses them",
            "set unclean.leader.election.enable=false",
        )
    if settings.get("default.replication.factor") == "1":
        where = "a disk that is lost loses" if brokers == 1 else "a broker that is lost loses"
        yield Complaint(
            f"new topics have no replicas: {where} their messages",
            "raise default.replication.factor, with min.insync.replicas 2",
            remark=True,
        )
    if settings.get("auto.create.topics.enable") == "true":
        yield Complaint(
            "it makes each topic that a client names: a misspelt topic is not noticed, and one that it makes "
            "keeps messages for the time of log.retention.ms only",
            "set auto.create.topics.enable=false",
            remark=True,
        )
    ahead = settings.get(_AHEAD)
    if settings.get(_TIME) == "CreateTime" and ahead and int(ahead) > _MAX_AHEAD:
        yield Complaint(
            "it accepts timestamps that are more than an hour ahead of its clock, and jobs read them as the "
            "times of receipt",
            f"set {_AHEAD}={_MAX_AHEAD} or less, or {_TIME}=LogAppendTime",
            remark=True,
        )


def topic_complaints(topic: str, settings: Settings) -> Iterator[Complaint]:
    """The faults of a topic that a job reads."""
    if "compact" in (settings.get("cleanup.policy") or ""):
        yield Complaint(
            f"topic {topic!r}, which a job reads, is compacted: it keeps the last message of each key only",
            "set cleanup.policy=delete for the topic, or let the job read another one",
        )


def topic_settings(connected: Connected, topic: str) -> Settings:
    """The settings of a topic; empty if the broker does not show them."""
    return _described(connected, {"TOPIC": [topic]}).get(("topic", topic), {})


def _described(connected: Connected, names: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], Settings]:
    from kafka.admin import ConfigResource

    resources = [ConfigResource(kind, name) for kind, of_kind in names.items() for name in of_kind]
    found: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]] = connected.admin.describe_configs(
        resources, config_filter="all"
    )
    return {
        (kind, name): {setting: value["value"] for setting, value in settings.items()}
        for kind, of_kind in found.items()
        for name, settings in of_kind.items()
    }
