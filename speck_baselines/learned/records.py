"""Training data: JSON lines of placements with their measured figures, and the schema of a line.

A line has a problem, a placement of its jobs, and the figures that a simulator or a run of real engines
measured for it.  Units are SI, as in :mod:`speck.placement.problem`.  Lines of ``benchmarks.placement gates``
are lines of this form without ``version``; their other members are passed over.
``python -m speck_baselines.learned.records FILE`` checks a file, ``--schema`` prints the JSON Schema of a
line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import EXCLUDE, Schema, ValidationError, fields, validate
from marshmallow.exceptions import SCHEMA

from speck.errors import Fault, InvalidInput
from speck.placement.problem import Channel, EngineModel, Load, PlacedJob, Placement, Problem, SiteModel, Tier

VERSION = 1
SUBJECT = "training data"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LEAST = validate.Range(min=0)
_MORE = validate.Range(min=0, min_inclusive=False)


def _number(about: str, least: validate.Range = _LEAST, **options: Any) -> fields.Float:
    return fields.Float(validate=least, allow_nan=False, metadata={"description": about}, **options)


def _index(about: str) -> fields.Integer:
    return fields.Integer(validate=_LEAST, strict=True, metadata={"description": about})


def _indices(about: str, **options: Any) -> fields.List[int]:
    return fields.List(_index("an index"), metadata={"description": about}, **options)


def _text(about: str, **options: Any) -> fields.String:
    return fields.String(metadata={"description": about}, **options)


class _SiteSchema(Schema):
    name = _text("name of the site", required=True)
    cores = _number("cores", _MORE, required=True)
    speed = _number("speed of a core; 1 is the reference core", _MORE)
    price = _number("price of a core; 1 is that of the reference core")
    tier = _text("tier in the topology", validate=validate.OneOf([each.value for each in Tier]))
    slots = fields.Integer(validate=_LEAST, allow_none=True, metadata={"description": "tasks; null: any"})
    memory = _number("bytes; null: unlimited", allow_none=True)
    up = _number("bandwidth away from the site, bytes/s", _MORE)
    down = _number("bandwidth towards the site, bytes/s", _MORE)
    latency = _number("one-way delay to the middle of the network, s")
    idle = _number("cores that engine and broker use without jobs")


class _JobSchema(Schema):
    name = _text("name of the job", required=True)
    allowed = _indices("sites that may run it", required=True, validate=validate.Length(min=1))
    inputs = _indices("channels that it reads", required=True, validate=validate.Length(min=1))
    output = fields.Integer(validate=_LEAST, allow_none=True, metadata={"description": "channel written"})
    composition = _index("composition")
    engine = _text("kind of engine", validate=validate.OneOf([each.value for each in EngineModel]))
    cost = _number("processor time of a message, core-s")
    fixed = _number("cores in use without messages")
    selectivity = _number("messages out per message in")
    parallelism = fields.Integer(validate=validate.Range(min=1), metadata={"description": "subtasks"})
    memory = _number("bytes")
    state = _number("bytes")
    stateful = fields.Boolean(metadata={"description": "true if the job has state"})
    batch_overhead = _number("overhead of a batch of Spark, s")
    trigger = _number("least time between batches of Spark, s")
    real_time = fields.Boolean(metadata={"description": "true if Spark handles each message as it arrives"})


class _ChannelSchema(Schema):
    name = _text("topic", required=True)
    homes = _indices("sites whose broker may hold it", required=True, validate=validate.Length(min=1))
    size = _number("payload and topic of a message, bytes", _MORE)
    rate = _number("messages/s that are born here")
    stamp = _number("stamp of a message that a job wrote, bytes; null: as of the problem", allow_none=True)


class _LoadSchema(Schema):
    cores = fields.List(_number("cores"), required=True)
    memory = fields.List(_number("bytes"), required=True)
    slots = fields.List(_number("tasks"), required=True)
    up = fields.List(_number("bytes/s"), required=True)
    down = fields.List(_number("bytes/s"), required=True)
    messages = fields.List(_number("messages/s into and out of Flink jobs"))


class _ProblemSchema(Schema):
    sites = fields.List(fields.Nested(_SiteSchema), required=True, validate=validate.Length(min=1))
    jobs = fields.List(fields.Nested(_JobSchema), required=True, validate=validate.Length(min=1))
    channels = fields.List(fields.Nested(_ChannelSchema), required=True, validate=validate.Length(min=1))
    overhead = _number("headers of a message on the wire, bytes")
    broker_cost = _number("processor time of a broker, core-s a message and reader")
    event_loop = _number("event loop of a site's Flink process, core-s a root of messages/s")
    stamp = _number("stamp of a message that a job wrote, bytes")
    acknowledgement = _number("acknowledgement of a written message, bytes")
    background = fields.Nested(_LoadSchema, allow_none=True)


class _PlacedSchema(Schema):
    sites = _indices("site of each job", required=True)
    homes = _indices("home of each channel", required=True)


class _MeasuredSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    age = _number("mean age of results, s; each sink counts the same")
    rate = _number("results of all sinks, messages/s; of engines, messages that the last jobs take in")
    p95 = _number("95th percentile of the age of the slowest sink, s")
    wan = _number("traffic over the wide area, bytes/s")
    growth = fields.Float(
        allow_nan=False, metadata={"description": "growth of all queues together, messages/s"}
    )
    failed = fields.Boolean(metadata={"description": "true if a sink got less than a tenth of its results"})


class _RecordSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    version = fields.Integer(
        strict=True,
        validate=validate.Equal(VERSION),
        load_default=VERSION,
        metadata={"description": "version of this form"},
    )
    origin = _text(
        "a simulator, or real engines",
        validate=validate.OneOf(("simulator", "engines")),
        load_default="engines",
    )
    problem = fields.Nested(_ProblemSchema, required=True)
    placed = fields.Nested(_PlacedSchema, required=True)
    measured = fields.Nested(_MeasuredSchema, required=True)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A placement of a problem and its measured figures, of which some may be missing.

    ``origin`` is ``simulator`` or ``engines``.  ``measured`` has of ``age`` (s), ``rate`` (messages/s),
    ``p95`` (s), ``wan`` (bytes/s), ``growth`` (messages/s) and ``failed`` those that were measured.
    """

    origin: str
    problem: Problem
    placement: Placement
    measured: Mapping[str, float]

    @property
    def line(self) -> str:
        """The record as a line of JSON."""
        about = {"version": VERSION, "origin": self.origin}
        return json.dumps(about | described(self.problem, self.placement) | {"measured": dict(self.measured)})


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a line."""
    plugin = MarshmallowPlugin(
        schema_name_resolver=lambda schema: type(schema).__name__.strip("_").removesuffix("Schema")
    )
    spec = APISpec("", "", "3.1.0", plugins=[plugin])
    spec.components.schema("Record", schema=_RecordSchema)
    text = json.dumps(spec.to_dict()["components"]["schemas"]).replace("#/components/schemas/", "#/$defs/")
    definitions: dict[str, Any] = json.loads(text)
    # Lines of runs may have more members, which are passed over.
    for name in ("Record", "Measured"):
        definitions[name].pop("additionalProperties", None)
    root: dict[str, Any] = definitions.pop("Record")
    about: dict[str, Any] = {"$schema": _DIALECT, "title": "A line of training data"}
    return about | root | {"$defs": definitions}


def described(problem: Problem, placement: Placement) -> dict[str, Any]:
    """The members of a line from which the placement is simulated, as plain data."""
    return {
        "problem": {
            "sites": [asdict(each) for each in problem.sites],
            "jobs": [asdict(each) for each in problem.jobs],
            "channels": [asdict(each) for each in problem.channels],
            "overhead": problem.overhead,
            "broker_cost": problem.broker_cost,
            "event_loop": problem.event_loop,
            "stamp": problem.stamp,
            "acknowledgement": problem.acknowledgement,
            "background": None if problem.background is None else asdict(problem.background),
        },
        "placed": {"sites": list(placement.sites), "homes": list(placement.homes)},
    }


def problem_of(data: Mapping[str, Any]) -> Problem:
    """The problem that a line describes."""
    jobs = [
        PlacedJob(
            **{
                **each,
                "engine": EngineModel(each.get("engine", EngineModel.FLINK)),
                "allowed": tuple(each["allowed"]),
                "inputs": tuple(each["inputs"]),
            }
        )
        for each in data["jobs"]
    ]
    sites = [SiteModel(**{**each, "tier": Tier(each.get("tier", Tier.EDGE))}) for each in data["sites"]]
    channels = [Channel(**{**each, "homes": tuple(each["homes"])}) for each in data["channels"]]
    names = ("overhead", "stamp", "acknowledgement", "broker_cost", "event_loop")
    known = {name: data[name] for name in names if name in data}
    background = None
    if data.get("background"):
        background = Load(**{"messages": [0.0] * len(sites), **data["background"]})
    return Problem(sites=sites, jobs=jobs, channels=channels, background=background, **known)


def read(path: Path) -> Iterator[Record]:
    """The records of a file.

    Raises :class:`~speck.errors.InvalidInput` with the line and the field of the first fault, and for a file
    that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"file {str(path)!r} cannot be read: {error} (expected JSON lines in UTF-8)"
        raise InvalidInput([Fault(message, value=str(path))], SUBJECT) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _record(line, path, number)


def _record(line: str, path: Path, number: int) -> Record:
    try:
        data = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _fault(path, number, f"is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise _fault(path, number, f"is {line[:40]!r} (expected an object)")
    try:
        found = _RecordSchema().load(data)
    except ValidationError as error:
        field, message = _first(error.messages)
        raise _fault(path, number, f"{field}: {message}", field) from error
    if fault := _dangling(found):
        raise _fault(path, number, fault)
    placed = found["placed"]
    try:
        problem = problem_of(found["problem"])
    except InvalidInput as error:
        raise _fault(path, number, f"problem: {error}", "problem") from error
    placement = Placement(tuple(placed["sites"]), tuple(placed["homes"]))
    if faults := problem.faults(placement.sites):
        raise _fault(path, number, f"placed: {faults[0]}", "placed.sites")
    return Record(
        origin=found["origin"], problem=problem, placement=placement, measured=dict(found["measured"])
    )


def _refuse(name: str) -> float:
    raise ValueError(f"{name} (expected a finite number)")


def _fault(path: Path, number: int, message: str, field: str | None = None) -> InvalidInput:
    return InvalidInput([Fault(f"{path}: {message}", field=field, line=number)], SUBJECT)


def _first(messages: Any, path: str = "") -> tuple[str, str]:
    """The path and the text of the first message in marshmallow's tree."""
    if isinstance(messages, Mapping):
        name, inner = next(iter(messages.items()))
        return _first(inner, path if name == SCHEMA else f"{path}.{name}".strip("."))
    return path, " ".join(map(str, messages)) if isinstance(messages, list) else str(messages)


def _dangling(found: Mapping[str, Any]) -> str | None:
    """An index without a site or a channel, or a list of the wrong length, in words."""
    problem, placed = found["problem"], found["placed"]
    sites, channels = len(problem["sites"]), len(problem["channels"])
    for name, values, count in (
        ("placed.sites", placed["sites"], len(problem["jobs"])),
        ("placed.homes", placed["homes"], channels),
    ):
        if len(values) != count:
            return f"{name} has {len(values)} members (expected {count})"
    for each in (problem.get("background") or {}).values():
        if len(each) != sites:
            return f"problem.background has lists of {len(each)} (expected {sites}, one value a site)"
    lists = [("placed.sites", placed["sites"], sites), ("placed.homes", placed["homes"], sites)]
    for number, job in enumerate(problem["jobs"]):
        output = job.get("output")
        lists += [
            (f"problem.jobs.{number}.allowed", job["allowed"], sites),
            (f"problem.jobs.{number}.inputs", job["inputs"], channels),
            (f"problem.jobs.{number}.output", [] if output is None else [output], channels),
        ]
    for number, channel in enumerate(problem["channels"]):
        lists.append((f"problem.channels.{number}.homes", channel["homes"], sites))
    for name, values, count in lists:
        for value in values:
            if value >= count:
                return f"{name} has index {value} (expected below {count})"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the records of files by origin, or print the schema; the exit code is 1 for a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m speck_baselines.learned.records", description=main.__doc__
    )
    parser.add_argument("data", type=Path, nargs="*", metavar="FILE", help="training data, JSON lines")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of a line")
    options = parser.parse_args(arguments)
    if options.schema:
        print(json.dumps(json_schema(), indent=1))
        return 0
    try:
        origins = Counter(record.origin for path in options.data for record in read(path))
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(origins))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
