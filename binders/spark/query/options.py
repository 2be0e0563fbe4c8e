"""What a job's query is wired to on every kind of Spark: its broker, its checkpoint, its settings."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from speck.core.inventory import Engine, Inventory
from speck.core.job import Job, fence_topic
from speck.core.runtime import Attempt

CONNECTOR_FORMAT = "mqtt"
STATE_KIND = "spark-checkpoint"
CHECKPOINT_DIRECTORY = "speck-checkpoints"

# A link between two sites that is cut for some minutes holds a job up, and does not end it.
FLUSH_TIMEOUT = "10min"

SETTINGS = {
    # Spark's default forks processes for every file of a checkpoint: 73 ms a batch instead of 33 ms.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # 100 by default, of which each is some files, and of a stateful job its changes too.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # What the log of a job tells; 100 by default, of some kilobytes each.
    "spark.sql.streaming.numRecentProgressUpdates": "30",
    # A Connect server shows what it was asked on a page of its own: as the text of a protocol buffer, with
    # the options of source and sink.  This blots out the password among them.
    "spark.sql.redaction.string.regex": r'''(?<=key: "password"\s{1,40}value: )"(?:[^"\\]|\\.)*"''',
}


def source_options(job: Job, attempt: Attempt, inventory: Inventory) -> dict[str, str]:
    """The options of the connector's source; the broker's password is revealed in them."""
    options = {
        "brokerUrl": job.source_broker,
        "topic": job.source_topic,
        "clientId": attempt.session,
        "fenceTopic": fence_topic(attempt.session),
        "attempt": str(attempt.number),
        # A session that a broker lost is filled again by those who wrote to it.
        "failOnDataLoss": "false",
    }
    if job.parallelism is not None:
        options["partitions"] = str(job.parallelism)
    return options | _login_options(job.source_broker, inventory)


def sink_options(job: Job, inventory: Inventory) -> dict[str, str]:
    """The options of the connector's sink; the broker's password is revealed in them."""
    options = {
        "brokerUrl": job.sink_broker,
        "topic": job.sink_topic,
        "job": job.job_name,
        "flushTimeout": FLUSH_TIMEOUT,
    }
    return options | _login_options(job.sink_broker, inventory)


def settings(job: Job) -> dict[str, str]:
    """Spark's settings of the job's session."""
    if job.parallelism is None:
        return SETTINGS
    return SETTINGS | {"spark.sql.shuffle.partitions": str(job.parallelism)}


def checkpoint_of(attempt: Attempt, engine: Engine) -> str:
    """Where the attempt's checkpoint is, as the engine sees it."""
    if attempt.state is not None:
        return attempt.state.location
    return f"{checkpoints_of(engine)}/{attempt.job_name}/{attempt.id}"


def checkpoints_of(engine: Engine) -> str:
    """The directory of an engine's checkpoints, as the engine sees it."""
    return (engine.checkpoint_dir or CHECKPOINT_DIRECTORY).rstrip("/")


def same_storage(location: str, base: str) -> bool:
    """Whether engines that keep checkpoints below ``base`` may be taken to see this one.

    Of a file system with a name they see all; of local files those in the same folder, as of a shared mount.
    """
    there, here = urlsplit(location), urlsplit(base)
    if there.scheme not in ("", "file") or here.scheme not in ("", "file"):
        return (there.scheme, there.netloc) == (here.scheme, here.netloc)
    return PurePosixPath(there.path).is_relative_to(here.path)


def _login_options(broker: str, inventory: Inventory) -> dict[str, str]:
    login = inventory.job_login(broker)
    options = {
        "username": login.username,
        "password": login.password.reveal() if login.password else None,
        "passwordFile": login.password_file,
        "caFile": login.ca_file,
        "certificateFile": login.certificate_file,
        "keyFile": login.key_file,
    }
    return {name: value for name, value in options.items() if value is not None}
