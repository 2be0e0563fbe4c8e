"""The specification of a job's query on every kind of Spark: brokers, checkpoint, settings."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from binders.spark.query import real_time
from binders.spark.query.spec import (
    INCARNATION_SETTING,
    ORIGIN_SETTING,
    SPOOL_SETTING,
    TIMEZONE_SETTING,
    TRIGGER_SETTING,
    QuerySpec,
)
from speck.core.inventory import Engine, Inventory
from speck.core.job import Job, fence_topic
from speck.core.runtime import Attempt
from speck.core.split import Part, Role, control_topic, part_of
from speck.core.trigger import REAL_TIME

CONNECTOR_FORMAT = "mqtt"
STATE_KIND = "spark-checkpoint"
CHECKPOINT_DIRECTORY = "speck-checkpoints"
# Beside the checkpoints of the jobs; no job has such a name.
SPOOL = "~spool"

# A link between two sites that is down for some minutes delays a job, and does not end it.
FLUSH_TIMEOUT = "10min"

SETTINGS = {
    # 100 by default; each batch takes some files, and those of its state changes.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # The reports shown in a job's log; 100 by default, of some kilobytes each.
    "spark.sql.streaming.numRecentProgressUpdates": "30",
    # Each batch is described to listeners: the default is a text with every node's details, which is then
    # searched for passwords.
    "spark.sql.ui.explainMode": "simple",
    # Stamps that are counted name the partition of a row.  Adaptive execution chooses partitions by sizes and
    # by the server, so that a batch that is run again could have others.
    "spark.sql.adaptive.enabled": "false",
    # A Connect server shows its requests on a page: as the text of a protocol buffer, with the options of
    # source and sink.  This redacts the passwords among them.  Spark searches the description of each batch,
    # too: the pattern begins with a quotation mark, of which there are few, and looks behind only there.
    "spark.sql.redaction.string.regex": r'''"(?<=key: "(p|parkP)assword"\s{1,40}value: ")(?:[^"\\]|\\.)*"''',
}

# Further ones of a job that is part of a split.
SPLIT_SETTINGS = {
    # pandas has integers with nulls as floats otherwise, which are exact up to 2**53 only.
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype": "true",
}

# Further ones of a SQL job: a sum of whole numbers wraps at 64 bits, as on every engine.
QUERY_SETTINGS = {"spark.sql.ansi.enabled": "false"}


def spec_of(job: Job, attempt: Attempt, engine: Engine, inventory: Inventory, path: str) -> QuerySpec:
    """The query that an attempt starts at an engine, with the job's code at this path there."""
    return QuerySpec(
        job_name=job.job_name,
        path=path,
        entry=job.entry_class,
        arguments=job.code_arguments,
        trigger=job.trigger,
        output_mode=job.output_mode,
        split=dict(job.split),
        checkpoint=checkpoint_of(attempt, engine),
        settings=settings(job, attempt, engine),
        source_format=CONNECTOR_FORMAT,
        source_options=source_options(job, attempt, inventory),
        sink_format=CONNECTOR_FORMAT,
        sink_options=sink_options(job, inventory),
    )


def source_options(job: Job, attempt: Attempt, inventory: Inventory) -> dict[str, str]:
    """The options of the connector's source; they contain the broker's password in plain text."""
    options = {
        "brokerUrl": inventory.job_broker_address(job.source_broker),
        "topic": job.source_topic,
        "clientId": attempt.session,
        "fenceTopic": fence_topic(attempt.session),
        "attempt": str(attempt.number),
        # A session that a broker lost is filled again by its writers.
        "failOnDataLoss": "false",
    }
    if job.on_error != "fail":
        options |= {"onError": job.on_error, "job": job.job_name}
        if job.query:  # messages that do not fit are left out before a batch, and the others decoded there
            options |= {"program": str(job.query["program"]), "decoded": "true"}
    if job.park_topic is not None:
        options["parkTopic"] = job.park_topic
    part = part_of(job)
    if part is not None:
        options |= _split_source_options(part, job.parallelism)
        if part.metered:
            options["controlTopic"] = control_topic(attempt.session)
    elif job.trigger == REAL_TIME:
        options["partitions"] = str(real_time.partitions(job.parallelism))
    elif job.parallelism is not None:
        options["partitions"] = str(job.parallelism)
    return options | _login_options(job.source_broker, inventory)


def sink_options(job: Job, inventory: Inventory) -> dict[str, str]:
    """The options of the connector's sink; they contain the broker's password in plain text."""
    options = {
        "brokerUrl": inventory.job_broker_address(job.sink_broker),
        "topic": job.sink_topic,
        "job": job.job_name,
        "flushTimeout": FLUSH_TIMEOUT,
    }
    if job.retain:
        options["retain"] = "true"
    if job.on_error != "fail":
        options["onError"] = job.on_error
    if job.park_topic is not None:
        parking = {"brokerUrl": job.source_broker} | _login_options(job.source_broker, inventory)
        options |= {f"park{name[0].upper()}{name[1:]}": value for name, value in parking.items()}
        options["parkTopic"] = job.park_topic
    return options | _login_options(job.sink_broker, inventory)


def probe_options(broker: str, topic: str, inventory: Inventory) -> dict[str, str]:
    """The options of a measurement of the link to a broker, with its password in plain text."""
    options = {"brokerUrl": inventory.job_broker_address(broker), "topic": topic}
    return options | _login_options(broker, inventory)


def reach_options(broker: str, topic: str, inventory: Inventory) -> dict[str, str]:
    """The options of a test that a broker is reached, with its password in plain text."""
    return probe_options(broker, topic, inventory) | {"reach": "true"}


def settings(job: Job, attempt: Attempt, engine: Engine) -> dict[str, str]:
    """Spark's settings of the job's session.

    The numbers in the stamps and the spool are among them, since the sink of an older connector refuses
    options it lacks.
    """
    found = SETTINGS | {
        SPOOL_SETTING: f"{checkpoints_of(engine)}/{SPOOL}",
        TIMEZONE_SETTING: job.timezone,
        INCARNATION_SETTING: str(attempt.incarnation),
        ORIGIN_SETTING: str(attempt.origin),
    }
    if job.query:
        found |= QUERY_SETTINGS
    if job.trigger == REAL_TIME:
        found |= real_time.SETTINGS | {TRIGGER_SETTING: REAL_TIME}
    if job.split:
        found |= SPLIT_SETTINGS | {"spark.sql.shuffle.partitions": str(job.parallelism or 1)}
    elif job.parallelism is not None:
        found["spark.sql.shuffle.partitions"] = str(job.parallelism)
    return found


def _split_source_options(part: Part, parallelism: int | None) -> dict[str, str]:
    """The options by which the parts of a split read otherwise than other jobs."""
    if part.role is Role.WHOLE:
        # Each partition of the source is a worker where no row is given to another one.
        partitions = part.workers if part.partitioner == "shuffle" else parallelism
        return {} if partitions is None else {"partitions": str(partitions)}
    if part.role is Role.PARTITIONER:
        return {"partitions": "1"}  # all rows go to one task
    return {"valueType": "binary", "partitions": str(parallelism or 1)}


def checkpoint_of(attempt: Attempt, engine: Engine) -> str:
    """The location of the attempt's checkpoint, as the engine sees it."""
    if attempt.state is not None:
        return attempt.state.location
    return f"{checkpoints_of(engine)}/{attempt.job_name}/{attempt.id}"


def checkpoints_of(engine: Engine) -> str:
    """The directory of an engine's checkpoints, as the engine sees it."""
    return (engine.checkpoint_dir or CHECKPOINT_DIRECTORY).rstrip("/")


def same_storage(location: str, base: str) -> bool:
    """True if engines with their checkpoints below ``base`` can be assumed to see this location.

    That is all of the same remote file system; of local files those in the same folder, as on a shared mount.
    """
    state, own = urlsplit(location), urlsplit(base)
    if state.scheme not in ("", "file") or own.scheme not in ("", "file"):
        return (state.scheme, state.netloc) == (own.scheme, own.netloc)
    return PurePosixPath(state.path).is_relative_to(own.path)


def _login_options(broker: str, inventory: Inventory) -> dict[str, str]:
    """A broker's login, each field as an option: ``password_file`` is ``passwordFile``."""
    login = inventory.job_login(broker).revealed()
    return {_camel_case(name): value for name, value in login.items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
