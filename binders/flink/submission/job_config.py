"""The configuration of a job on Flink: program arguments, settings, and state directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from speck.core.inventory import Engine, Inventory, JobLogin
from speck.core.job import Job, Scalar, fence_topic, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt

STATE_KIND = "flink-savepoint"

# A message is acknowledged to its broker when a checkpoint completes.  Each costs an idle job some 13 ms of
# processor time (measured: 1.3 % of a core at 1 s, 0.5 % at 3 s); between two of them the broker has to keep
# the messages that were read, of which MQTT allows 65,535 in flight: 21,000 messages/s at 3 s.
CHECKPOINT_INTERVAL = "3 s"

SETTINGS: Mapping[str, str] = {
    "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
    # Buffers that are not full are flushed after this time.  Measured at 500 messages/s: the median of a hop
    # was 142 ms with Flink's default of 100 ms, and 7 ms with this.
    "execution.buffer-timeout.interval": "5 ms",
    # A job that was cancelled by others, or cannot take a savepoint, restarts from its last checkpoint.
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    # Flink itself restarts a job up to three times a minute; after more failures the job is FAILED, and SpecK
    # heals it.  (A fixed number of restarts would count over the whole life of a job, which may be years.)
    "restart-strategy.type": "failure-rate",
    "restart-strategy.failure-rate.max-failures-per-interval": "3",
    "restart-strategy.failure-rate.failure-rate-interval": "1 min",
    "restart-strategy.failure-rate.delay": "1 s",
}

# Prefix of a job's global parameters; /jobs/:id/config has them, so the cluster alone identifies a job.
PARAMETERS = "speck"

# The attempt whose stamps the sinks continue, instead of the job's own.
LINEAGE_SETTING = "speck.lineage"

# The numbers in the stamps of what the sinks write (see Attempt).
INCARNATION_SETTING = "speck.incarnation"
ORIGIN_SETTING = "speck.origin"

# The folders of the checkpoints and of the attempt's savepoints if they are on a local disk, and the one
# where the sinks keep messages that their broker may not have saved: no job and no Flink id has its name.
CHECKPOINTS_SETTING = "speck.checkpoints"
SAVEPOINTS_SETTING = "speck.savepoints"
SPOOL_SETTING = "speck.spool"
SPOOL = "~spool"

# Flink's zone of local times in tables and SQL; MqttJob.timezone() of the connector returns it.
TIMEZONE_SETTING = "table.local-time-zone"

CHECKPOINT_KEYS = ("execution.checkpointing.dir", "state.checkpoints.dir")
SAVEPOINT_KEYS = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")


@dataclass(frozen=True)
class StateDirectories:
    """The locations of an attempt's checkpoints and savepoints, in Flink's form; empty if there is none.

    Checkpoints are in a subfolder named by Flink's id of the job; the savepoint folder is the attempt's own.
    """

    checkpoints: str
    savepoints: str


def attempt_directories(known: Engine, cluster: Mapping[str, str], attempt: Attempt) -> StateDirectories:
    """The locations of an attempt's state."""
    base = directories(known, cluster)
    own = f"{base.savepoints}/{attempt.job_name}/{attempt.id}" if base.savepoints else ""
    return StateDirectories(base.checkpoints, own)


def directories(known: Engine, cluster: Mapping[str, str]) -> StateDirectories:
    """The state directories of all attempts: from the inventory, or else the cluster's own settings."""
    checkpoints = known.checkpoint_dir or _first(cluster, CHECKPOINT_KEYS)
    savepoints = known.savepoint_dir or _first(cluster, SAVEPOINT_KEYS)
    return StateDirectories(_location(checkpoints), _location(savepoints))


def run_body(
    job: Job,
    attempt: Attempt,
    code: str,
    known: Engine,
    inventory: Inventory,
    checkpoints: str = "",
    savepoints: str = "",
) -> dict[str, Any]:
    """The body of the request that runs a job.  It may contain secrets: never show or log it.

    ``checkpoints`` is the location of the cluster's checkpoints, ``savepoints`` that of the attempt's
    savepoints; empty if unknown.
    """
    body: dict[str, Any] = {
        "entryClass": job.entry_class,
        "programArgsList": program_arguments(job, attempt, inventory),
        "jobId": attempt.id,
        "flinkConfiguration": {
            **SETTINGS,
            "pipeline.name": job.job_name,
            TIMEZONE_SETTING: job.timezone,
            "pipeline.global-job-parameters": ",".join(
                f"{name}:{value}" for name, value in job_parameters(job, attempt, code).items()
            ),
            **_stamp_settings(attempt),
            **_on_error_settings(job),
            **_local_disk_settings(checkpoints, savepoints),
            **({"speck.retain": "true"} if job.retain else {}),
            **({CHECKPOINT_KEYS[0]: _location(known.checkpoint_dir)} if known.checkpoint_dir else {}),
            **login_settings("speck.source", inventory.job_login(job.source_broker)),
            **login_settings("speck.sink", inventory.job_login(job.sink_broker)),
        },
    }
    if job.parallelism is not None:
        body["parallelism"] = job.parallelism
    if attempt.state is not None:
        # NO_CLAIM: Flink deletes no file of the state, so that another job can start from it again.
        body |= {"savepointPath": attempt.state.location, "claimMode": "NO_CLAIM"}
        body["allowNonRestoredState"] = False
    return body


def _on_error_settings(job: Job) -> dict[str, str]:
    settings = {"speck.on-error": job.on_error} if job.on_error != "fail" else {}
    return settings | ({"speck.park-topic": job.park_topic} if job.park_topic is not None else {})


def _local_disk_settings(checkpoints: str, savepoints: str) -> dict[str, str]:
    folder, own = _local_folder(checkpoints), _local_folder(savepoints)
    settings = {CHECKPOINTS_SETTING: folder, SPOOL_SETTING: f"{folder}/{SPOOL}"} if folder is not None else {}
    return settings | ({SAVEPOINTS_SETTING: own} if own is not None else {})


def _local_folder(location: str) -> str | None:
    """The path of a location in Flink's form; ``None`` for one that is on no local disk."""
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path).rstrip("/")


def _stamp_settings(attempt: Attempt) -> dict[str, str]:
    numbers = {INCARNATION_SETTING: attempt.incarnation, ORIGIN_SETTING: attempt.origin}
    settings = {name: str(number) for name, number in numbers.items() if number}
    return settings | ({LINEAGE_SETTING: attempt.lineage} if attempt.lineage else {})


def job_parameters(job: Job, attempt: Attempt, code: str) -> dict[str, str]:
    """The labels of a job (see ``labels``); ``code`` is the hash of the jar that contains or is its file."""
    labels = {
        "job": job.job_name,
        "code": code,
        "reads": session_fingerprint(job.source_broker, attempt.session),
        "hash": job.code_hash,
        "number": str(attempt.number),
        "form": form_fingerprint(job),
        "owner": attempt.owner,
        "stamps": attempt.stamps(),
    }
    return {f"{PARAMETERS}.{name}": value for name, value in labels.items() if value}


def program_arguments(job: Job, attempt: Attempt, inventory: Inventory) -> list[str]:
    """The arguments of a job's main method: topics and brokers, identity, and the job's own arguments."""
    wired: dict[str, Scalar] = {
        "job-name": job.job_name,
        "source-broker": inventory.job_broker_address(job.source_broker),
        "source-topic": job.source_topic,
        "sink-broker": inventory.job_broker_address(job.sink_broker),
        "sink-topic": job.sink_topic,
        "session": attempt.session,
        "attempt": attempt.number,
        "fence-topic": fence_topic(attempt.session),
    }
    pairs = [*wired.items(), *((key, value) for key, value in job.code_arguments.items() if key not in wired)]
    return [part for key, value in pairs for part in (f"--{key}", _text(value))]


def login_settings(prefix: str, login: JobLogin) -> dict[str, str]:
    """A broker's login as settings of the job, which Flink's pages and logs do not show.

    ``password_file`` is ``PREFIX.password-file``.
    """
    return {f"{prefix}.{name.replace('_', '-')}": value for name, value in login.revealed().items()}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _location(directory: str) -> str:
    """A directory as a URL; without one, Flink resolves a bare path in its default file system."""
    bare = directory.rstrip("/")
    return f"file://{bare}" if bare.startswith("/") else bare


def _first(settings: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((settings[key] for key in keys if settings.get(key)), "")
