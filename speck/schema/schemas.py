"""The documents of users, field by field: jobs and compositions.

The schemas check each field by itself, and are the source of the OpenAPI description.  Checks against the
sites, the installed binders, the files and the other jobs are in :mod:`speck.schema.job_resolution` and
:mod:`speck.schema.compositions`; the site inventory is in :mod:`speck.schema.inventory_schemas`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import ClassVar

from marshmallow import fields

from speck.core.names import JOB_NAME
from speck.core.split import (
    DEFAULT_AT_SITES,
    DEFAULT_IN_ONE_JOB,
    MOST_COMBINERS,
    PARTITIONERS,
    POLICIES,
    listed_partitioners,
)
from speck.core.start import start_fault
from speck.core.suggestions import did_you_mean
from speck.core.timezone import timezone_fault
from speck.core.topic import filter_fault, name_fault
from speck.core.trigger import trigger_fault
from speck.core.units import (
    BIT_RATE,
    BYTES,
    COST,
    NUMBER,
    PER_SECOND,
    SECONDS,
    SHARE,
)
from speck.schema.fields import (
    Arguments,
    Choice,
    Columns,
    Cut,
    Labels,
    Mode,
    NameOrNames,
    NameOrPlace,
    Names,
    NumberOrPlaces,
    Numbers,
    Quantity,
    StrictSchema,
    Switch,
    Text,
    WholeNumber,
)
from speck.sql.types import FORMATS, STEP_MS

_DOTTED = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*\Z")
MOST_SQL = 64 * 1024  # characters
_NAME = "1 to 100 letters, digits, '.', '_', '-', the first a letter or a digit"
_CLASS = "the dotted name of a class or function"


def check_name(value: str) -> str | None:
    """The fault of the name of a job, a composition or a site, as a predicate; ``None`` if it is valid."""
    return None if JOB_NAME.match(value) else f"is not a name (expected {_NAME})"


def check_table(value: str) -> str | None:
    """The fault of a name of a table or a column, as a predicate."""
    right = len(value) <= 100 and value.isidentifier()
    return None if right else "is not a name (expected letters, digits and '_', the first no digit)"


def _check_class(value: str) -> str | None:
    right = len(value) <= 1000 and _DOTTED.match(value.replace("$", "_"))
    return None if right else f"is not a name of code (expected {_CLASS})"


def _check_sql(value: str) -> str | None:
    if not value.strip():
        return "is empty (expected SELECT ... FROM ...)"
    return None if len(value) <= MOST_SQL else f"is too long (expected at most {MOST_SQL:,} characters)"


class ExpectsSchema(StrictSchema):
    """The load that is expected of a job, in force until it is measured."""

    rate = Quantity("messages into the job, a second", PER_SECOND)
    bytes = Quantity("size of an output message; bytes, or with a unit", BYTES)
    cost = Quantity("processor time for a message, of a core of the reference machine", COST)
    selectivity = Quantity("messages out for each message in", NUMBER)
    state = Quantity("size of the job's state; bytes, or with a unit", BYTES)


def _check_partitioner(value: str) -> str | None:
    if value in PARTITIONERS:
        return None
    right = did_you_mean(value, PARTITIONERS, f"expected one of {listed_partitioners()}")
    return f"is not a partitioner ({right})"


class PlaceSchema(StrictSchema):
    """An engine for a part of a split; the site or the address."""

    site = Text("the site", expected="a site's name", example="A")
    spe_address = Text(
        "address of the engine, or the name of a site",
        expected="an engine's address",
        example="sc://10.0.0.4:15002",
    )
    parallelism = WholeNumber("number of shards of the part; 1 by default", at_most=32_768, example=2)
    arguments = Arguments("arguments for this part, beside those of the job", example={"workload": 4})


class CombinerSchema(PlaceSchema):
    """A combiner."""

    weight = Quantity("its share of the rows, in any unit; 1 by default", NUMBER)


class MetricsSchema(StrictSchema):
    """The window over which the work of a split is measured, of wall-clock time."""

    window = Quantity(
        "its length, a multiple of `slide`; 60 seconds by default", SECONDS, Fraction, positive=True
    )
    slide = Quantity(
        "time between two windows, at least 1 second; 10 seconds by default", SECONDS, Fraction, positive=True
    )


class KeySplitSchema(StrictSchema):
    """The split of a keyed windowed aggregation, within one Spark job or over sites."""

    combiners = NumberOrPlaces(
        NameOrPlace(CombinerSchema, "a site, or a place", example="A"),
        "a number: two phases in one Spark job; a list: a job for each of these sites or places",
        at_most=MOST_COMBINERS,
        example=["A", "B", {"site": "D", "weight": 4}],
    )
    partitioner = Text(
        f"name of the partitioner; {DEFAULT_AT_SITES} by default, in one job {DEFAULT_IN_ONE_JOB}",
        expected="a partitioner",
        check=_check_partitioner,
        enum=list(PARTITIONERS),
    )
    window = Quantity("length of the windows of event time", SECONDS, Fraction, positive=True)
    slide = Quantity(
        "time between two windows, of which `window` is a multiple; by default `window`",
        SECONDS,
        Fraction,
        positive=True,
    )
    lateness = Quantity(
        "time for which a window waits for late rows; 0 by default",
        SECONDS,
        Fraction,
    )
    options = Numbers("options of the partitioner", example={"tolerance": 0.05})
    policy = Text(
        f"trained policy of saspartitioner: {', '.join(POLICIES)}, or a file (.npz) beside those of jobs",
        expected="a policy",
        example="zipf-1.5",
    )
    reducer = NameOrPlace(PlaceSchema, "place of the reducer; by default the job's engine", example="D")
    weights = Choice("shares of the combiners: as given, or by measured speed", ["fixed", "measured"])
    metrics = fields.Nested(MetricsSchema, metadata={"description": "the windows of measured work"})
    seed = WholeNumber("of the hash of the keys; by default by the job's name", at_most=2**32 - 1, example=7)


class LabelledSitesSchema(StrictSchema):
    """The sites of the inventory with a label."""

    label = Text("the label", required=True, expected="a label of sites", check=check_name, example="edge")


class ForEachSchema(StrictSchema):
    """The sites for each of which an entry makes a job; `site` or `sites`."""

    site = Names(
        "names of sites, instead of `sites`",
        Text("a site's name", expected="a site's name"),
        example=["A", "B", "C"],
    )
    sites = fields.Nested(
        LabelledSitesSchema, metadata={"description": "sites by their label, instead of `site`"}
    )


class JobSchema(StrictSchema):
    """One job: code or a query, the engine it runs on, the topic it reads and the one it writes."""

    by_query: ClassVar = ("entry_class", "job_path", "source_topic")  # fields that a query gives

    job_name = Text("unique name", required=True, expected=_NAME, check=check_name, example="A")
    spe_address = Text(
        "address of the engine, or the name of a site; by default that of `site`",
        expected="an engine's address",
        example="http://172.16.39.7:8081/",
    )
    source_broker = Text(
        "address of the broker that is read from, or the name of a site; by default that of `site`",
        expected="a broker's address",
        example="tcp://172.16.39.7:1883",
    )
    source_topic = Text(
        "MQTT topic or topic filter that is read",
        required=True,
        expected="a topic",
        check=filter_fault,
        example="T-1",
    )
    start = Text(
        "place in the source topic where the job begins to read: latest, earliest, or a time; latest by "
        "default. At brokers that keep messages which were read, such as Kafka",
        expected="latest, earliest, or a time with its zone",
        check=start_fault,
        example="earliest",
    )
    sink_broker = Text(
        "address of the broker that is written to, or the name of a site; by default that of `site`",
        expected="a broker's address",
        example="tcp://172.16.192.18:1883",
    )
    sink_topic = Text(
        "MQTT topic that is written",
        required=True,
        expected="a topic",
        check=name_fault,
        example="T-C-filter",
    )
    entry_class = Text(
        "class or function in the job's file",
        required=True,
        expected=_CLASS,
        check=_check_class,
        example="package.ExampleJob",
    )
    job_path = Text(
        "the job's file: a path beside the composition, or below a `--root` of the command line (which sends "
        "the file) or of the server",
        required=True,
        expected="a path",
        example="jars_and_apps/test-1.jar",
    )
    sql = Text(
        "a query over the tables of `topics`, or a `.sql` file with one, instead of `source_topic`, "
        "`entry_class` and `job_path`. In compositions only",
        expected="SELECT ... FROM ...",
        check=_check_sql,
        example="SELECT town, speed FROM readings WHERE speed > 50",
    )
    format = Choice("form of the messages that a query writes; json by default", list(FORMATS))
    cut = Cut(
        "the last operator of a query that runs where its table is published; the others run at `rest`",
        example="filter",
    )
    rest = Text(
        "the site of the operators after the `cut` of a query, such as its windows",
        expected="a site's name",
        example="D",
    )
    frame = Quantity(
        "longest time, by event time, for which a row of an input job waits for others to share its message, "
        f"in a join by time or a query without windows; {STEP_MS} ms by default",
        SECONDS,
        lambda seconds: int(seconds * 1000),
        bounds=(0.01, 60),
    )
    engine = Text(
        "kind of engine; by default from the scheme of `spe_address` (sc, spark: Spark; http, https: Flink)",
        expected="spark or flink",
        enum=["spark", "flink"],
    )
    site = Text(
        "a site, whose addresses apply where none is given; `any`: SpecK chooses among those with an "
        "engine of the job's kind",
        expected="a site's name",
        example="A",
    )
    arguments = Arguments("arguments of the job's code", example={"window": "5 minutes", "limit": 10})
    parallelism = WholeNumber(
        "number of tasks of the job; by default the engine's own", at_most=32_768, example=2
    )
    upgrade = Choice("treatment of the job's state in an update or a move", ["stateful", "stateless"])
    trigger = Text(
        "interval of Spark's micro-batches, by default as fast as possible; or `real-time`: no micro-batches",
        check=trigger_fault,
        example="2 seconds",
    )
    output_mode = Choice(
        "results that a Spark job writes in each batch; by default as its code says",
        ["append", "update", "complete"],
    )
    timezone = Text(
        "time zone of local times in the job, at every site: a name of the IANA Time Zone Database; UTC by "
        "default",
        expected="a time zone such as Europe/Berlin",
        check=timezone_fault,
        example="Europe/Berlin",
    )
    restart = Choice("restart policy for a job that failed", ["always", "never"])
    on_error = Choice(
        "treatment of a message on which the job's code fails, and of a result that the sink's broker does "
        "not accept",
        ["fail", "skip", "park"],
    )
    park_topic = Text(
        "topic at the source broker for such messages and results, with `on_error: park`",
        expected="a topic",
        check=name_fault,
        example="T-1-parked",
    )
    retain = Switch("true: the sink's broker retains the last result of each topic, for later subscribers")
    labels = Labels("free text; a change touches no engine", example={"owner": "traffic"})
    sites = Names(
        "the sites that may run the job, instead of `site`; SpecK chooses",
        Text("a site's name", expected="a site's name"),
        example=["A", "D"],
    )
    pin = Switch("true: the job stays at the site where it runs, whatever is advised")
    apart = NameOrNames(
        "a job, or several, that this one shares no site with",
        Text("a job's name", expected="a job's name", check=check_name),
        example="clean-b1",
    )
    expects = fields.Nested(ExpectsSchema, metadata={"description": "the load, until it is measured"})
    key_split = fields.Nested(
        KeySplitSchema, metadata={"description": "the split of the job by keys, in one job or over sites"}
    )
    for_each = fields.Nested(
        ForEachSchema,
        metadata={
            "description": "makes a job for each of these sites; `${each.site}` in any text is the site's "
            "name, `${each.site:lower}` in lower case. In compositions only"
        },
    )
    template = fields.String(
        dump_only=True,
        metadata={"description": "of a job that `for_each` made: its name with `*` for the site"},
    )
    cuts = fields.List(
        fields.String(),
        dump_only=True,
        metadata={"description": "of an input job of a query with `cut: auto`: the cuts that it may get"},
    )
    partitions = fields.Dict(
        dump_only=True,
        metadata={"description": "the numbers of partitions that `topics` declares for its topics, by topic"},
    )
    query = fields.Dict(
        dump_only=True, metadata={"description": "of a job with `sql`: its `program`, in canonical form"}
    )
    split = fields.Dict(
        dump_only=True, metadata={"description": "the part of the job in a split by keys, if it has one"}
    )
    code_hash = fields.String(
        dump_only=True, metadata={"description": "SHA-256 of the job's file, in hexadecimal"}
    )
    placed = fields.List(
        fields.String(),
        dump_only=True,
        metadata={"description": "the addresses that SpecK chose: those that the file does not have"},
    )

    class Meta:
        """Fields whose names are keywords of Python."""

        include = {  # noqa: RUF012 - marshmallow's way
            "with": Text(
                "a job that this one shares a site with",
                expected="a job's name",
                check=check_name,
                example="clean-a1",
                attribute="with_job",
            )
        }


class SqlJobSchema(JobSchema):
    """A job with a query, from which code and topic follow."""

    source_topic = Text("by the query")
    entry_class = Text("by the query")
    job_path = Text("by the query")


class WeightsSchema(StrictSchema):
    """The weights of age, WAN traffic and cores in the objective, from 0; at least one is more than 0."""

    latency = Quantity("of the mean age of results; 0.5 by default", NUMBER)
    wan = Quantity("of the bytes between sites; 0.4 by default", NUMBER)
    cores = Quantity("of the computing power; 0.1 by default", NUMBER)


_OF_AUTO = "; for `mode: auto`"


class PlacementSchema(StrictSchema):
    """The block ``placement``: mode, policy and weights; a change of it touches no engine."""

    mode = Mode("`advise` on request; `auto` moves jobs automatically; `off`", ["advise", "auto", "off"])
    policy = Text("name of a placement policy", expected="a policy's name", example="speck")
    weights = fields.Nested(WeightsSchema, metadata={"description": "the weights of the objective"})
    utilisation = Quantity(
        "target share of each site's computing power; 0.7 by default", SHARE, bounds=(0.4, 0.95)
    )
    max_age = Quantity("bound of the 95th percentile of the age of every result", SECONDS, positive=True)
    max_wan = Quantity(
        "bound of the composition's traffic through each site's uplink",
        BIT_RATE,
        lambda bits: float(bits / 8),
        positive=True,
    )
    stamps = Mode(
        "form of stamps on the wire, as set at the engines: `text` (default) or `compact`",
        ["text", "compact"],
    )
    min_gain = Quantity(f"least improvement for a move; 15% by default{_OF_AUTO}", SHARE, bounds=(0.0, 1.0))
    cooldown = Quantity(f"time between two steps; 5 minutes by default{_OF_AUTO}", SECONDS)
    horizon = Quantity(
        f"twice the time within which a move must break even; 1 hour by default{_OF_AUTO}",
        SECONDS,
        positive=True,
    )
    steps_per_hour = WholeNumber(f"most steps in an hour; 6 by default{_OF_AUTO}", at_most=60, example=6)
    group = WholeNumber(f"most jobs in one step; 6 by default{_OF_AUTO}", at_most=100, example=6)


class TopicSchema(StrictSchema):
    """A declared topic; a text in its place is the description."""

    description = Text("its messages, for people", example="readings of the sensors, JSON")
    shared = Switch("true if several jobs write it")


class TypedTopicSchema(TopicSchema):
    """A topic between the jobs, or one with a schema: a table of SQL jobs."""

    format = Choice("form of its messages; json by default", list(FORMATS))
    schema = Columns(
        "its columns, in the order of a line of CSV: the type of each, perhaps with `not null`",
        example={"time": "timestamp(ms) not null", "town": "string", "speed": "double"},
    )
    at = NameOrNames(
        "the site, or sites, at whose brokers its messages are published",
        Text("a site's name", expected="a site's name"),
        example="A",
    )
    partitions = WholeNumber(
        "its partitions at a Kafka broker, if SpecK makes it; 1 by default", at_most=1000, example=4
    )
    event_time = Text("the column by which its rows are ordered in time", example="time")
    watermark = Quantity(
        "how far the event time of a row may be behind the newest one",
        SECONDS,
        Fraction,
    )

    class Meta:
        """Fields whose names are keywords of Python."""

        include = {  # noqa: RUF012 - marshmallow's way
            "as": Text(
                "its name in queries; by default the last word of the topic",
                check=check_table,
                example="readings",
                attribute="name",
            )
        }


def _topics(description: str, schema: type[TopicSchema] = TopicSchema) -> fields.Dict:
    return fields.Dict(
        keys=Text("the topic"), values=fields.Nested(schema), metadata={"description": description}
    )


class CompositionSchema(StrictSchema):
    """A named graph of jobs, connected by topics."""

    name = Text("by default the file's stem", expected=_NAME, check=check_name, example="figure-3")
    placement = fields.Nested(PlacementSchema, metadata={"description": "where SpecK places jobs"})
    sources = _topics("all topics, or filters, that come from outside, each with a description")
    sinks = _topics("all topics that are read outside, each with a description")
    topics = _topics(
        "topics between the jobs that several jobs write, for example; and the tables of queries",
        TypedTopicSchema,
    )
    jobs = fields.List(fields.Nested(JobSchema), required=True, metadata={"description": "the jobs"})
