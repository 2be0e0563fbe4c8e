"""What Flink is told of a job: program arguments, settings, and where its state is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speck.core.inventory import Engine, Inventory, JobLogin
from speck.core.job import Job, Scalar, fence_topic, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt

STATE_KIND = "flink-savepoint"

# A message is acknowledged to its broker when a checkpoint completes.  Each costs an idle job some 13 ms of
# processor time (seen: 1.3 % of a core at 1 s, 0.5 % at 3 s); between two of them the broker has to hold what
# was read, of which MQTT allows 65,535 messages to be under way: 21,000 messages/s at 3 s.
CHECKPOINT_INTERVAL = "3 s"

SETTINGS: Mapping[str, str] = {
    "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
    # Messages are passed on within this time though their buffer is not full.  By Flink's default of 100 ms,
    # a hop took 142 ms (the half of messages, 500 a second), with this 7 ms.
    "execution.buffer-timeout.interval": "5 ms",
    # A job that is cancelled by others, or cannot give a savepoint, starts from its last checkpoint.
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    # Three failures within a minute are mended by Flink where the job is; what fails more is FAILED, and
    # SpecK's to heal.  (A fixed number of restarts counts over the whole life of a job, which may be years.)
    "restart-strategy.type": "failure-rate",
    "restart-strategy.failure-rate.max-failures-per-interval": "3",
    "restart-strategy.failure-rate.failure-rate-interval": "1 min",
    "restart-strategy.failure-rate.delay": "1 s",
}

# Global parameters of a job: /jobs/:id/config shows them, so that the cluster alone tells whose job it is.
PARAMETERS = "speck"

# The attempt whose stamps the sinks go on with, in place of the job's own.
LINEAGE_SETTING = "speck.lineage"

CHECKPOINT_KEYS = ("execution.checkpointing.dir", "state.checkpoints.dir")
SAVEPOINT_KEYS = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")


@dataclass(frozen=True)
class Places:
    """Where an attempt's checkpoints and savepoints go (locations as Flink has them); empty: nowhere.

    Checkpoints are in a folder below with Flink's id of the job; savepoints are the attempt's alone.
    """

    checkpoints: str
    savepoints: str


def places(known: Engine, cluster: Mapping[str, str], attempt: Attempt) -> Places:
    """The places of an attempt."""
    base = directories(known, cluster)
    own = f"{base.savepoints}/{attempt.job_name}/{attempt.id}" if base.savepoints else ""
    return Places(base.checkpoints, own)


def directories(known: Engine, cluster: Mapping[str, str]) -> Places:
    """The places of all attempts: by the inventory, else by the cluster's own settings."""
    checkpoints = known.checkpoint_dir or _first(cluster, CHECKPOINT_KEYS)
    savepoints = known.savepoint_dir or _first(cluster, SAVEPOINT_KEYS)
    return Places(_location(checkpoints), _location(savepoints))


def run_body(job: Job, attempt: Attempt, code: str, known: Engine, inventory: Inventory) -> dict[str, Any]:
    """The body of the request that runs a job.  It may hold secrets: never to be shown or logged."""
    body: dict[str, Any] = {
        "entryClass": job.entry_class,
        "programArgsList": program_arguments(job, attempt),
        "jobId": attempt.id,
        "flinkConfiguration": {
            **SETTINGS,
            "pipeline.name": job.job_name,
            "pipeline.global-job-parameters": ",".join(
                f"{name}:{value}" for name, value in job_parameters(job, attempt, code).items()
            ),
            **({LINEAGE_SETTING: attempt.lineage} if attempt.lineage else {}),
            **({CHECKPOINT_KEYS[0]: _location(known.checkpoint_dir)} if known.checkpoint_dir else {}),
            **login_settings("speck.source", inventory.job_login(job.source_broker)),
            **login_settings("speck.sink", inventory.job_login(job.sink_broker)),
        },
    }
    if job.parallelism is not None:
        body["parallelism"] = job.parallelism
    if attempt.state is not None:
        # Not claimed: Flink deletes nothing of it, and it can be started from again.
        body |= {"savepointPath": attempt.state.location, "claimMode": "NO_CLAIM"}
        body["allowNonRestoredState"] = False
    return body


def job_parameters(job: Job, attempt: Attempt, code: str) -> dict[str, str]:
    """What tells whose a job is; ``code`` is the hash of what was uploaded, which may hold the job's file."""
    told = {
        "job": job.job_name,
        "code": code,
        "reads": session_fingerprint(job.source_broker, attempt.session),
        "hash": job.code_hash,
        "number": str(attempt.number),
        "form": form_fingerprint(job),
        "owner": attempt.owner,
    }
    return {f"{PARAMETERS}.{name}": value for name, value in told.items() if value}


def program_arguments(job: Job, attempt: Attempt) -> list[str]:
    """The arguments of a job's main method: where it reads and writes, who it is, and its own arguments."""
    wired: dict[str, Scalar] = {
        "job-name": job.job_name,
        "source-broker": job.source_broker,
        "source-topic": job.source_topic,
        "sink-broker": job.sink_broker,
        "sink-topic": job.sink_topic,
        "session": attempt.session,
        "attempt": attempt.number,
        "fence-topic": fence_topic(attempt.session),
    }
    pairs = [*wired.items(), *((key, value) for key, value in job.arguments.items() if key not in wired)]
    return [part for key, value in pairs for part in (f"--{key}", _text(value))]


def login_settings(prefix: str, login: JobLogin) -> dict[str, str]:
    """A broker's login as settings of the job, which neither Flink's pages nor its logs show."""
    found = {
        "username": login.username,
        "password": login.password.reveal() if login.password else None,
        "password-file": login.password_file,
        "ca-file": login.ca_file,
        "certificate-file": login.certificate_file,
        "key-file": login.key_file,
    }
    return {f"{prefix}.{name}": value for name, value in found.items() if value is not None}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _location(directory: str) -> str:
    """A directory as Flink takes it without a default file system: a bare path is one of this machine."""
    bare = directory.rstrip("/")
    return f"file://{bare}" if bare.startswith("/") else bare


def _first(settings: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((settings[key] for key in keys if settings.get(key)), "")
