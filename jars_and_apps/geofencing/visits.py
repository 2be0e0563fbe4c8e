"""The jobs ``spread``, ``forward``, ``track`` and ``occupancy`` of the geofencing composition.

``track`` derives visits from the lines of ``locate``, each with the fences of one position.
docs/geofencing.md defines the records and their meaning.  The results are a function of the lines alone,
whatever their order and their repetitions: nothing here reads a clock.

Times are milliseconds since 1970 in UTC.  The file imports no module of its own, as a job's file must.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    import pandas as pd
    from pyflink.datastream import DataStream
    from pyspark.sql import Column, DataFrame

LARGEST_MESSAGE = 200_000  # characters of several lines, far below a broker's limit
MOVERS_A_LINE = 500  # of an answer
LARGEST_OWN = 16_384  # characters of a user's value of a mover
BEFORE_ALL = -62_135_596_800_000  # 0001-01-01T00:00:00Z

_COMPACT = json.JSONEncoder(separators=(",", ":"))  # json.dumps would make one at each call
_STRICT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
# Errors of the place and not of the data: the job ends by them, and is started again.
_PASSED_ON = (ImportError, MemoryError, OSError)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)
_ORDER = ("exit", "enter", "dwell")  # of the events of one position

Event = dict[str, Any]


class Located(NamedTuple):
    """A position and its fences."""

    time: int
    mover: str
    position: Sequence[float]  # longitude, latitude
    site: str
    within: Mapping[str, Sequence[float]]  # by fence its dwell and confirm, s
    near: Sequence[str]  # fences in whose margin it is

    def rank(self) -> tuple[object, ...]:
        """The rank among the positions of a mover at one time, of which the first counts."""
        within = sorted((fence, *quantities) for fence, quantities in self.within.items())
        return *self.position, self.site, within, sorted(self.near)

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """The position in a line of ``locate``."""
        longitude, latitude = map(_number, line["position"])
        within = {fence: (_number(dwell), _number(confirm)) for fence, (dwell, confirm) in line["in"].items()}
        near = [*map(_text, line["near"])]
        mover, site = _text(line["mover"]), _text(line["site"])
        return cls(_instant(line["time"]), mover, (longitude, latitude), site, within, near)


@dataclass
class Visit:
    """A mover in a fence: ``entered`` once that is confirmed, ``out`` since it was seen outside."""

    since: int
    position: Sequence[float]
    first: bool  # its mover was first seen inside
    confirm: float = 0.0  # s
    entered: bool = False
    dwelt: bool = False
    out: tuple[int, Sequence[float]] | None = None


@dataclass
class Mover:
    """The time of the last position of a mover, where and at which site it was, and its visits by fence."""

    time: int
    position: Sequence[float]
    site: str
    visits: dict[str, Visit] = field(default_factory=dict)
    own: Any = None  # of the functions of a user, as JSON


def transitions(visits: dict[str, Visit], at: Located, *, first: bool) -> list[Event]:
    """The events of a mover's next position; ``visits`` become those after it.

    ``first`` is true if nothing is known of the mover.
    """
    events: list[Event] = []
    # A reported fence stays valid inside it: most positions are in the fences of the previous one.
    for fence, (dwell, confirm) in at.within.items():
        visit = visits.get(fence)
        if visit is None:
            visit = visits[fence] = Visit(at.time, at.position, first)
        visit.confirm, visit.out = confirm, None
        if not visit.entered or (dwell and not visit.dwelt):
            events += _in(visit, fence, at, dwell)
    for fence in visits.keys() - at.within.keys():
        visit = visits[fence]
        events += _out(visit, fence, at)
        if not visit.entered:
            del visits[fence]
    return sorted(events, key=lambda event: (_ORDER.index(event["event"]), event["fence"]))


def _in(visit: Visit, fence: str, at: Located, dwell: float) -> Iterator[Event]:
    stayed = (at.time - visit.since) / 1000
    if not visit.entered and stayed >= visit.confirm:
        visit.entered = True
        first = {"first": True} if visit.first else {}
        yield _event(visit.since, "enter", fence, at, visit.position) | first
    if visit.entered and not visit.dwelt and 0 < dwell <= stayed:
        visit.dwelt = True
        yield _event(at.time, "dwell", fence, at, at.position) | {"since": _iso(visit.since)}


def _out(visit: Visit, fence: str, at: Located) -> Iterator[Event]:
    if not visit.entered:
        return
    if fence in at.near:
        visit.out = None
        return
    visit.out = visit.out or (at.time, at.position)
    if (at.time - visit.out[0]) / 1000 >= visit.confirm:
        visit.entered = False
        yield _event(visit.out[0], "exit", fence, at, visit.out[1]) | {"since": _iso(visit.since)}


def _event(time: int, event: str, fence: str, at: Located, position: Sequence[float]) -> Event:
    named = {"time": _iso(time), "event": event, "mover": at.mover, "fence": fence}
    return named | {"position": list(position), "site": at.site}


def _iso(time: int) -> str:
    return (_EPOCH + time * _MILLI).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Tracker:
    """The movers of a shard, the positions that wait for those of other sites, and the time of each site."""

    movers: dict[str, Mover] = field(default_factory=dict)
    waiting: list[Located] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set, compare=False)  # movers that the last step changed
    _oldest: int = field(default=BEFORE_ALL, compare=False, repr=False)  # no mover's time is before it

    @classmethod
    def load(cls, state: str) -> Self:
        """The tracker that :meth:`dump` wrote."""
        movers, waiting, reached = json.loads(state)
        return cls(
            {name: _mover(values) for name, values in movers.items()},
            [Located(*values) for values in waiting],
            reached,
        )

    def dump(self) -> str:
        """The tracker as text."""
        movers = {name: _row(mover) for name, mover in self.movers.items()}
        return _compact([movers, self.waiting, self.reached])

    def step(
        self, lines: Iterable[str], sites: Sequence[str], forget: int, functions: Any = None
    ) -> list[Event]:
        """The events of further lines, and the answers to the questions among them.

        Positions count in the order of their times, once all ``sites`` have reached these.  A mover without a
        position for ``forget`` ms ends its visits.  ``functions`` are an object of a user, with the methods
        ``update`` and ``answer`` or one of them.
        """
        questions: list[Event] = []
        events = self._take(lines, questions)
        until = min(self.reached.get(site, BEFORE_ALL) for site in sites)
        ready = _in_order(each for each in self.waiting if each.time <= until)
        self.waiting = [each for each in self.waiting if each.time > until]
        self.moved = {each.mover for each in ready}
        for each in ready:
            events += self._position(each, forget, functions)
        if self._oldest + forget <= until:
            for name in sorted(name for name, mover in self.movers.items() if mover.time + forget <= until):
                events += self._silent(name, forget)
            self._oldest = min((mover.time for mover in self.movers.values()), default=until)
        return [*events, *(answer for each in questions for answer in self._answers(each, until, functions))]

    def _take(self, lines: Iterable[str], questions: list[Event]) -> list[Event]:
        """Sort lines out; the events are those that ``locate`` passes on, and lines of no other kind."""
        before, events = dict(self.reached), []
        for text in lines:
            try:
                line = {**json.loads(text)}  # raises for a value that is not an object
                if "reached" in line:
                    time, site = _instant(line["reached"]), _text(line["site"])
                    self.reached[site] = max(time, self.reached.get(site, BEFORE_ALL))
                elif "event" in line:
                    events.append(line)
                elif "question" in line:
                    questions.append(_checked(line))
                # One before that time is the repetition of a line that has been counted.
                elif (each := Located.of(line)).time > before.get(each.site, BEFORE_ALL):
                    self.waiting.append(each)
            except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
                reason = f"it is neither a line of locate nor a question: {error!r:.100}"
                events.append({"event": "rejected", "reason": reason, "line": text[:200]})
        return events

    def _answers(self, question: Event, until: int, functions: Any) -> list[Event]:
        """The movers that a question is about, as of the time that all sites have reached."""
        fence, named = question.get("fence"), question.get("mover")
        found = [
            {"mover": name, "time": _iso(mover.time), "position": list(mover.position), "site": mover.site}
            | {"in": {each: _iso(v.since) for each, v in sorted(mover.visits.items()) if v.entered}}
            | ({} if mover.own is None else {"own": mover.own})
            for name, mover in sorted(self.movers.items())
            if named in (None, name)
        ]
        found = [each for each in found if fence is None or fence in each["in"]]
        failed: list[Event] = []
        if hasattr(functions, "answer"):
            found, failed = _own_answer(functions, found, question)
        parts = [found[n : n + MOVERS_A_LINE] for n in range(0, len(found), MOVERS_A_LINE)] or [[]]
        head = {"event": "answer", "question": question["question"], "reached": _iso(until)}
        answers = [head | {"part": n, "parts": len(parts), "movers": part} for n, part in enumerate(parts)]
        return failed + answers

    def _position(self, at: Located, forget: int, functions: Any) -> list[Event]:
        mover, events = self.movers.get(at.mover), []
        if mover is not None and at.time <= mover.time:
            return []
        if mover is not None and mover.time + forget < at.time:
            events = self._silent(at.mover, forget)
            mover = None
        visits, own = ({}, None) if mover is None else (mover.visits, mover.own)
        made = transitions(visits, at, first=mover is None)
        if made and hasattr(functions, "update"):
            own, failed = _updated(functions, own, made)
            made += failed
        self.movers[at.mover] = Mover(at.time, at.position, at.site, visits, own)
        self._oldest = min(self._oldest, at.time)
        return events + made

    def _silent(self, name: str, forget: int) -> list[Event]:
        mover = self.movers.pop(name)
        self.moved.add(name)
        at = Located(mover.time, name, mover.position, mover.site, {}, ())
        more = {"reason": "silent"}
        return [
            _event(mover.time + forget, "exit", fence, at, at.position) | {"since": _iso(visit.since)} | more
            for fence, visit in sorted(mover.visits.items())
            if visit.entered
        ]


def _in_order(positions: Iterable[Located]) -> list[Located]:
    """Positions by time and mover, without those of a mover at one time that do not count."""
    found: dict[tuple[int, str], Located] = {}
    for each in positions:
        other = found.setdefault(each[:2], each)
        if other is not each and each.rank() < other.rank():
            found[each[:2]] = each
    return [found[key] for key in sorted(found)]


def _checked(question: Event) -> Event:
    kinds = [kind for kind in ("mover", "fence", "all") if kind in question]
    if len(kinds) != 1:
        raise ValueError("a question has one of mover, fence and all")
    for name in ("question", "mover", "fence"):
        _text(question.get(name, ""))
    return question


def _instant(text: str) -> int:
    # The sum raises for a time that is before the year 1, or after 9999, in UTC alone.
    return (_EPOCH + (datetime.fromisoformat(text) - _EPOCH) - _EPOCH) // _MILLI


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise ValueError(f"{value!r:.60} is not a number")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not text")
    value.encode()  # raises for a lone surrogate, which the state of Flink does not hold
    return value


def _row(mover: Mover) -> list[Any]:
    visits = {
        fence: (v.since, v.position, v.first, v.confirm, v.entered, v.dwelt, v.out)
        for fence, v in mover.visits.items()
    }
    return [mover.time, mover.position, mover.site, visits] + [mover.own] * (mover.own is not None)


def _mover(values: Sequence[Any]) -> Mover:
    time, position, site, visits, *own = values
    return Mover(time, position, site, {fence: Visit(*visit) for fence, visit in visits.items()}, *own)


# --- functions of a user


def _updated(functions: Any, own: Any, events: Iterable[Event]) -> tuple[Any, list[Event]]:
    """The user's value of a mover after some events, and an event for each call that failed."""
    failed = []
    for event in events:
        try:
            # As JSON: the value must not depend on where a batch ends, nor an event on what is done to it.
            own = _own_value(functions.update(json.loads(_compact(own)), json.loads(_compact(event))))
        except _PASSED_ON:
            raise
        except Exception as error:  # the function may raise anything
            named = {name: event[name] for name in ("time", "mover", "fence", "site")}
            failed.append(named | _failure("update", error))
    return own, failed


def _own_value(value: object) -> Any:
    text = _STRICT.encode(value)
    if len(text) > LARGEST_OWN:
        raise ValueError(f"the value has {len(text)} characters (expected at most {LARGEST_OWN})")
    return json.loads(text)


def _own_answer(functions: Any, movers: list[Event], question: Event) -> tuple[list[Event], list[Event]]:
    """The movers of the user's answer, or those of the plain one and an event for the call that failed."""
    try:
        given = json.loads(_compact([movers, question]))
        found = json.loads(_STRICT.encode(list(functions.answer(*given))))
        if all(isinstance(each, dict) for each in found):
            return found, []
        raise TypeError("the result has other values than objects (expected dictionaries)")
    except _PASSED_ON:
        raise
    except Exception as error:  # the function may raise anything
        return movers, [{"question": question["question"]} | _failure("answer", error)]


def _failure(function: str, error: Exception) -> Event:
    return {"event": "failed", "function": function, "error": f"{type(error).__name__}: {error}"[:200]}


# --- the jobs


def spread(messages: DataFrame) -> DataFrame:
    """Pass on the records of fences, without those that were rejected."""
    from pyspark.sql import functions as sf

    rejected = sf.get_json_object("value", "$.rejected")
    return messages.where(rejected.isNull()).select("value")


def forward(messages: DataFrame) -> DataFrame:
    """Pass on every message unchanged."""
    return messages.select("value")


forward.value_type = "binary"  # type: ignore[attr-defined]


def track(messages: DataFrame, sites: str, shards: int = 4, forget: float = 3600.0) -> DataFrame:
    """The events of all movers, a JSON object a line.

    ``sites`` are those whose positions are merged, ``A,B,C``; each of the ``shards`` has the state of some
    movers.  ``forget`` (s) is the time after which a silent mover ends its visits.
    """
    return tracked(messages, sites, shards, forget)


def tracked(messages: DataFrame, sites: str, shards: int, forget: float, functions: Any = None) -> DataFrame:
    """The events of :func:`track`, with the ``functions`` of a user as of :meth:`Tracker.step`."""
    from pyspark.sql import functions as sf

    names = _names(sites)
    if shards < 1:
        raise ValueError(f"shards is {shards} (expected 1 or more)")

    def step(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        found = state.getOption
        tracker = Tracker() if found is None else Tracker.load(found[0])
        lines = [line for frame in frames for line in frame["line"]]
        events = tracker.step(lines, names, round(forget * 1000), functions)
        of_shard = {"shard": int(key[0]), "shards": shards}
        made = sorted(_compact(each | of_shard if "parts" in each else each) for each in events)
        state.update((tracker.dump(),))
        yield pd.DataFrame({"value": pd.Series(list(map("\n".join, packed(made))), dtype=object)})

    line = sf.explode(sf.split("value", "\n")).alias("line")
    mover = sf.get_json_object("line", "$.mover")
    own = sf.array(sf.pmod(sf.hash(mover), sf.lit(shards)))
    # Each shard needs the times of all sites, and answers for its movers.
    of_all = sf.get_json_object("line", "$.question").isNotNull() | sf.col("line").startswith('{"reached"')
    to = sf.when(of_all, sf.sequence(sf.lit(0), sf.lit(shards - 1))).otherwise(own)
    rows = messages.select(line).where("line != ''").select("line", sf.explode(to).alias("shard"))
    return rows.groupBy("shard").applyInPandasWithState(
        step, "value STRING", "state STRING", "append", "NoTimeout"
    )


def _names(sites: str) -> list[str]:
    found = [name for name in map(str.strip, sites.split(",")) if name]
    if not found:
        raise ValueError(f"sites is {sites!r} (expected names such as A,B,C)")
    return found


def spread_on_flink(texts: DataStream) -> DataStream:
    """The job :func:`spread` in PyFlink."""
    # As `admit` writes it: a text that is not JSON is passed on, for `locate` to reject.
    return texts.filter(lambda text: not text.startswith('{"rejected":')).name("filter: spread")


def track_on_flink(texts: DataStream, sites: str, forget: float = 3600.0) -> DataStream:
    """The job :func:`track` in PyFlink, with one shard."""
    from pyflink.common import Types
    from pyflink.datastream import KeyedProcessFunction
    from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

    names = _names(sites)

    class Track(KeyedProcessFunction):  # type: ignore[misc]
        """Has each mover in a state of its own: a message writes those that it moves."""

        def open(self, runtime_context: Any) -> None:
            movers = MapStateDescriptor("movers", Types.STRING(), Types.STRING())
            self._movers = runtime_context.get_map_state(movers)
            self._others = runtime_context.get_state(ValueStateDescriptor("others", Types.STRING()))
            self._tracker: Tracker | None = None  # of the one key

        def process_element(self, value: str, ctx: Any) -> Iterator[str]:
            tracker = self._tracker = self._tracker or self._load()
            events = tracker.step(filter(None, value.split("\n")), names, round(forget * 1000))
            for name in tracker.moved:
                mover = tracker.movers.get(name)
                if mover is None:
                    self._movers.remove(name)
                else:
                    self._movers.put(name, _compact(_row(mover)))
            self._others.update(_compact([tracker.waiting, tracker.reached]))
            of_shard = {"shard": 0, "shards": 1}
            made = sorted(_compact(each | of_shard if "parts" in each else each) for each in events)
            yield from map("\n".join, packed(made))

        def _load(self) -> Tracker:
            waiting, reached = json.loads(self._others.value() or "[[],{}]")
            movers = {name: _mover(json.loads(text)) for name, text in self._movers.items()}
            return Tracker(movers, [Located(*values) for values in waiting], reached)

    keyed = texts.key_by(lambda _: 0, Types.INT())
    return keyed.process(Track(), Types.STRING()).name("process: track").uid("track")


def occupancy(messages: DataFrame, window: str = "15 minutes", lateness: str = "1 day") -> DataFrame:
    """The numbers of visits that began and ended in each fence, a JSON object for each window that changed.

    The object: ``fence``, ``start`` and ``end`` of the window, ``enters`` and ``exits``.  They are running
    totals: a later object of a window replaces an earlier one.  State covers ``lateness`` before the newest
    event.
    """
    from pyspark.sql import functions as sf

    line = sf.explode(sf.split("value", "\n")).alias("line")
    of_line = [sf.get_json_object("line", f"$.{name}").alias(name) for name in ("time", "event", "fence")]
    events = messages.select(line).select(*of_line).where("event in ('enter', 'exit')")
    grouped = (
        events.withColumn("time", sf.try_to_timestamp("time"))  # what is no time has no window
        .withWatermark("time", lateness)
        .groupBy(sf.window("time", window).alias("window"), "fence")
    )
    counts = [sf.count_if(sf.col("event") == name).alias(f"{name}s") for name in ("enter", "exit")]
    ends = [_utc(sf.col(f"window.{end}")).alias(end) for end in ("start", "end")]
    found = grouped.agg(*counts).select("fence", *ends, "enters", "exits")
    return found.select(sf.to_json(sf.struct("*")).alias("value"))


def _utc(time: Column) -> Column:
    """The time in ISO 8601 with ``Z``, independent of the session's time zone."""
    from pyspark.sql import functions as sf

    epoch = sf.lit("1970-01-01").cast("timestamp_ntz")
    moment = epoch + sf.make_dt_interval(secs=sf.unix_seconds(time))
    return sf.concat(sf.replace(moment.cast("string"), sf.lit(" "), sf.lit("T")), sf.lit("Z"))


# The running result of an aggregate is written whenever it changes.
occupancy.output_mode = "update"  # type: ignore[attr-defined]


def packed(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each message."""
    part, size = list[str](), 0
    for line in lines:
        if part and size + len(line) > LARGEST_MESSAGE:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _compact(value: object) -> str:
    return _COMPACT.encode(value)
