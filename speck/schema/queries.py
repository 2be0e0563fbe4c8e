"""The queries of a composition: from the ``sql`` of its jobs and the contracts of ``topics`` to programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speck.core.inventory import Inventory
from speck.core.suggestions import closest
from speck.core.topic import matches
from speck.core.trigger import REAL_TIME
from speck.errors import Fault, InvalidInput
from speck.schema.edges import Edges, declared_edges
from speck.schema.fault_report import FaultReport, Faults, listed
from speck.schema.for_each import Entry, once, unfolded
from speck.schema.schemas import CompositionSchema, JobSchema, SqlJobSchema, TypedTopicSchema
from speck.schema.validation import by_line, report_unknown_fields, require_mapping
from speck.schema.value_faults import character_fault
from speck.schema.yaml.documents import read_document
from speck.schema.yaml.lines import line_of
from speck.schema.yaml.parser import Document
from speck.sql.faults import SqlError, SqlFault
from speck.sql.types import Contract, table_name
from speck.store.jobfile import BadFile, locate, open_located

if TYPE_CHECKING:
    from speck.schema.code import SentFile
    from speck.sql.bind import Query

SQL = "sql"
SUFFIX = ".sql"
MOST_TABLES = 64  # of a composition
_MOST_BYTES = 64 * 1024
_OF_QUERY = ("format", "cut", "rest", "frame")
_NAMELESS = TypedTopicSchema().load_fields.keys() - {"as"}  # fields that leave a topic its own table's name
_FIELDS = JobSchema().load_fields.keys()
_GIVEN_BY_QUERY = ("source_topic", "entry_class", "job_path", "key_split", "output_mode")

# sqlglot is imported for a composition that has a query, and for no other.


@dataclass(frozen=True)
class QueryText:
    """The text of a query as a job contains it; ``file`` is the path of its file, if it is in one."""

    text: str
    file: str = ""


@dataclass(frozen=True)
class Unread:
    """The tables that a query may name and that are not known only since the document has another fault.

    ``any`` is true if their names cannot be told.
    """

    names: frozenset[str] = frozenset()
    any: bool = False

    @classmethod
    def of(cls, topics: object, edges: Edges, entries: Iterable[Any], report: FaultReport) -> Unread:
        """Those of the block ``topics`` and of jobs that have a fault, or are not made.

        ``entries`` are the data of all jobs, ``report`` is that of the document.
        """
        block: Mapping[str, Any] = topics if isinstance(topics, Mapping) else {}
        unnamed = report.misspelt("topics") or (topics is not None and topics is not block)
        names = set[str]()
        for topic in edges.faulty:
            values, name = block.get(topic), edges.typed.get(topic, {}).get("name")
            names.add(str(name or table_name(topic)).lower())
            nameless = isinstance(values, Mapping) and values.keys() <= _NAMELESS
            unnamed |= name is None and not nameless
        for each in entries:
            written = each.get("sink_topic") if isinstance(each, Mapping) else None
            if isinstance(each, Mapping) and each.get(SQL) is not None:
                unnamed |= not isinstance(written, str)
            elif isinstance(written, str) and _is_misspelt(each):
                names.add(table_name(written))
        return cls(frozenset(names), unnamed)

    def explains(self, name: str, tables: Collection[str]) -> bool:
        """True if a table that is not among ``tables`` is probably one of these."""
        return name in self.names or (self.any and closest(name, tables) is None)

    def plus(self, topic: object) -> Unread:
        """These, and the table that a query with a fault writes."""
        return replace(self, names=self.names | {table_name(topic)}) if isinstance(topic, str) else self


NOTHING_UNREAD = Unread()


@dataclass
class Queries:
    """The bound queries of one document, by the index of the job's entry."""

    bound: dict[int, Query] = field(default_factory=dict)
    texts: dict[int, QueryText] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entries: Sequence[Entry],
        edges: Edges,
        roots: Sequence[Path],
        sent: Mapping[str, SentFile],
        faults: Faults,
        unread: Unread = NOTHING_UNREAD,
    ) -> Queries:
        """Bind all queries to the tables of ``edges``, but those that read one which is ``unread``."""
        tables, faulty = _tables(edges, faults)
        unread = replace(unread, names=unread.names | faulty)
        found = cls()
        waiting: dict[int, Entry] = {}
        for place, entry in enumerate(entries):
            if isinstance(entry.data, Mapping) and entry.data.get(SQL) is not None:
                report = _report(entry, faults)
                if (text := _text(entry.data, roots, sent, report)) is not None:
                    found.texts[place], waiting[place] = text, entry
                else:
                    unread = unread.plus(entry.data.get("sink_topic"))
        found._bind_all(waiting, tables, faults, unread)
        return found

    def _bind_all(
        self, waiting: dict[int, Entry], tables: dict[str, Contract], faults: Faults, unread: Unread
    ) -> None:
        """Bind each query once the tables of those before it are known, in any order of the jobs.

        One that reads the table of a query with a fault has none for that.
        """
        while waiting:
            names = {place: self._names(place) - tables.keys() for place in waiting}
            ready = [place for place in waiting if not names[place]]
            vain = [place for place in waiting if any(unread.explains(each, tables) for each in names[place])]
            awaited = {_output(entry) for entry in waiting.values()}
            wrong = [place for place in waiting if not names[place] <= awaited]
            for place in ready or vain or wrong or list(waiting):
                entry = waiting.pop(place)
                if place in vain or not self._bind(place, entry, tables, faults):
                    unread = unread.plus(entry.data.get("sink_topic"))

    def _names(self, place: int) -> set[str]:
        from speck.sql.bind import tables_of

        try:
            return set(tables_of(self.texts[place].text))
        except SqlError:
            return set()  # its faults are reported when it is bound

    def _bind(self, place: int, entry: Entry, tables: dict[str, Contract], faults: Faults) -> bool:
        """Bind a query and add the table that it writes; false if it has a fault, which is reported."""
        from speck.sql.bind import bind

        given = entry.data.get("arguments")
        form = entry.data.get("format")
        try:
            query = bind(
                self.texts[place].text,
                tables,
                given if isinstance(given, Mapping) else {},
                form if form in ("json", "csv") else "json",
            )
        except SqlError as error:
            faults += [query_fault(entry, self.texts[place], each) for each in error.faults]
            return False
        self.bound[place] = query
        if isinstance(topic := entry.data.get("sink_topic"), str):
            self._add_output(topic, query, entry, tables, faults)
        return True

    def _add_output(
        self, topic: str, query: Query, entry: Entry, tables: dict[str, Contract], faults: Faults
    ) -> None:
        """Add the table that a query writes, or compare it with the contract of ``topics``."""
        program = query.program
        written = Contract(topic, table_name(topic), program.format, program.output)
        declared = next((each for each in tables.values() if matches(each.topic, topic)), None)
        if declared is not None:
            from speck.sql.contracts import mismatches

            report = _report(entry, faults)
            for fault in mismatches(written, declared):
                report.add_sentence(SQL, f"sql: {fault}")
        elif written.name and written.name not in tables:
            tables[written.name] = written


def _output(entry: Entry) -> str:
    """The name of the table that a query writes; empty if its topic has a fault."""
    topic = entry.data.get("sink_topic")
    return table_name(topic) if isinstance(topic, str) else ""


def _tables(edges: Edges, faults: Faults) -> tuple[dict[str, Contract], set[str]]:
    """The tables of ``topics:``, by their names in small letters, and the names of those with a fault."""
    blocks = edges.data.get("topics")
    tables, faulty = dict[str, Contract](), set[str]()
    for topic, values in edges.typed.items():
        inner = blocks.get(topic) if isinstance(blocks, Mapping) else None
        subject = f"topics: {topic!r}: "
        report = FaultReport(faults, inner if isinstance(inner, Mapping) else {}, subject=subject)
        if (contract := _contract(topic, values, report, faulty=topic in edges.faulty)) is None:
            if not report.sound:
                faulty.add(str(values.get("name", table_name(topic))).lower())
            continue
        earlier = tables.setdefault(contract.name.lower(), contract)
        overlap = next(
            (each for each in tables.values() if each is not contract and _overlap(each, contract)), None
        )
        if earlier is not contract:
            report.add(
                "as",
                f"is the table of topic {earlier.topic!r} too (expected another name)",
                shown=repr(contract.name),
            )
        elif overlap is not None:
            report.add(
                "schema",
                f"matches messages for which topic {overlap.topic!r} has a schema (expected one)",
                shown="",
            )
    if len(tables) > MOST_TABLES:
        faults.append(
            Fault(f"topics has {len(tables)} schemas (expected at most {MOST_TABLES})", field="topics")
        )
    return tables, faulty


def _overlap(one: Contract, other: Contract) -> bool:
    return matches(one.topic, other.topic) or matches(other.topic, one.topic)


def _contract(topic: str, values: Mapping[str, Any], report: FaultReport, *, faulty: bool) -> Contract | None:
    """The table of a topic; ``None`` without a schema.  One with a fault may have it misspelt."""
    columns = values.get("schema")
    if columns is None and faulty:
        return None
    if columns is None:
        for name in ("as", "at", "format", "event_time", "watermark"):
            if report.data.get(name) is not None and report.data.get("schema") is None:
                report.add(name, "needs a schema (expected schema: {column: type})", shown="")
        return None
    name = str(values.get("name", table_name(topic)))
    if not name:
        report.add("as", "is missing (expected a name: the topic has no word for one)", shown="")
        return None
    contract = Contract(
        topic,
        name.lower(),
        str(values.get("format", "json")),
        columns,
        values.get("event_time"),
        int(values["watermark"] * 1000) if values.get("watermark") is not None else None,
        tuple(values.get("at", ())),
    )
    return _timed(contract, report, faulty=faulty)


def _timed(contract: Contract, report: FaultReport, *, faulty: bool) -> Contract | None:
    """A contract whose ``event_time`` is one of its columns."""
    if contract.event_time is None:
        if contract.watermark_ms is not None and not faulty:
            report.add("watermark", "needs an event_time (expected the name of a column)", shown="")
        return contract
    column = contract.column(contract.event_time)
    if column is None:
        names = listed([each.name for each in contract.columns], 10)
        report.add("event_time", f"is not a column of the schema (expected one of {names})")
        return None
    if column.type != "timestamp" or column.nullable:
        right = "expected timestamp, timestamp(ms) or timestamp(s), and not null"
        report.add("event_time", f"is a column of type {column.written_type} ({right})")
        return None
    return replace(contract, event_time=column.name)


def _text(
    data: Mapping[str, Any], roots: Sequence[Path], sent: Mapping[str, SentFile], report: FaultReport
) -> QueryText | None:
    """The text of a job's query, from its file if it is in one; ``None`` with a fault."""
    written = data[SQL]
    if isinstance(written, str) and (fault := character_fault(written, "\n\r\t")) is not None:
        report.add(SQL, fault)
        return None
    if not isinstance(written, str) or not is_file(written):
        return QueryText(written) if isinstance(written, str) and written.strip() else None
    path = written.strip()
    try:
        with _opened(path, roots, sent) as file:
            content = file.read(_MOST_BYTES + 1)
    except (BadFile, OSError) as error:
        report.add(SQL, f"{error}")
        return None
    if len(content) > _MOST_BYTES:
        report.add(SQL, f"has more than {_MOST_BYTES:,} bytes")
        return None
    try:
        return QueryText(content.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        report.add(SQL, "is not UTF-8 text")
        return None


def _opened(path: str, roots: Sequence[Path], sent: Mapping[str, SentFile]) -> Any:
    if (found := sent.get(path)) is not None:
        return found.path.open("rb")
    return open_located(locate(path, roots), roots)


def is_file(written: str) -> bool:
    """True if the ``sql`` of a job is the path of a file."""
    text = written.strip()
    return text.lower().endswith(SUFFIX) and not any(each.isspace() for each in text)


def query_fault(entry: Entry, text: QueryText, fault: SqlFault) -> Fault:
    """A fault of a query as one of the document, with its line there."""
    line = line_of(entry.data, SQL)
    place = f"line {fault.line}, column {fault.column}" if fault.line else ""
    where = ", ".join(each for each in (text.file or "sql", place) if each)
    if not text.file and line is not None and fault.line and "\n" in text.text:
        line += fault.line  # the text of a block begins in the line after its key
    return Fault(f"{where}: {fault.message}", job=_name(entry), field=SQL, line=line)


def _name(entry: Entry) -> str:
    return str(entry.data.get("job_name", f"jobs[{entry.index}]"))[:100]


def _report(entry: Entry, faults: Faults) -> FaultReport:
    return FaultReport(faults, entry.data, job=_name(entry))


def schema_of(data: Mapping[str, Any], plain: JobSchema) -> JobSchema:
    """The schema of a job: that of its query if it has one."""
    return SqlJobSchema() if data.get(SQL) is not None or _is_misspelt(data) else plain


def _is_misspelt(data: Mapping[str, Any]) -> bool:
    """True if an unknown field of a job is probably ``sql``, misspelt."""
    return any(key not in _FIELDS and closest(str(key), _FIELDS) == SQL for key in data)


def check_fields(data: Mapping[str, Any], report: FaultReport) -> None:
    """Report the fields that do not stand beside a query, or that need one."""
    if data.get(SQL) is None:
        for name in () if report.misspelt(SQL) else _OF_QUERY:
            if data.get(name) is not None:
                report.add(name, "needs a query (expected sql: SELECT ..., or none)")
        return
    for name in _GIVEN_BY_QUERY:
        if data.get(name) is not None:
            report.add(name, "conflicts with 'sql' (expected one of them)")
    if data.get("trigger") == REAL_TIME:
        report.add("trigger", "does not fit a job with 'sql' (expected an interval)")


def query_fields(fields: Mapping[str, Any], query: Query | None) -> dict[str, Any]:
    """The fields of a job with a query: its topic, and the program in the place of text and arguments.

    Those of a query with a fault, which is ``None``, are for the checks of the others.
    """
    without = {name: value for name, value in fields.items() if name not in (SQL, "arguments", *_OF_QUERY)}
    if query is None:
        return without | {"source_topic": ""}
    return without | {"source_topic": query.table.topic, "query": {"program": query.program.to_json()}}


def queries_in(entries: Iterable[Any]) -> Iterator[str]:
    """The paths of the files with queries, of the data of jobs."""
    for each in entries:
        written = each.get(SQL) if isinstance(each, Mapping) else None
        if isinstance(written, str) and is_file(written):
            yield written.strip()


@dataclass(frozen=True)
class BoundQuery:
    """The query of a job, and the job's entry."""

    query: Query
    entry: Entry


def queries_of(
    text: bytes, roots: Sequence[Path], inventory: Inventory | None = None
) -> dict[str, BoundQuery]:
    """The queries of a composition's text by job name; the ``inventory`` may lack sites.

    Raises :class:`~speck.errors.InvalidInput` with the faults of ``topics`` and of the queries.
    """
    document, edges, report, faults = _read(text)
    data, entries = document.value, list[Entry]()
    if isinstance(data.get("jobs"), list):
        sites = inventory or Inventory()
        entries = unfolded(data, sites, faults, may_refer=document.may_refer, complete=False)
    unread = Unread.of(data.get("topics"), edges, (), report)
    queries = Queries.of(entries, edges, roots, {}, faults, unread)
    _refuse(once(faults, {_name(each): each.template for each in entries if each.template}))
    found = ((entries[place], query) for place, query in sorted(queries.bound.items()))
    return {_name(entry): BoundQuery(query, entry) for entry, query in found}


def tables_of(text: bytes) -> dict[str, Contract]:
    """The tables of ``topics`` of a composition's text, by their names in small letters.

    Raises :class:`~speck.errors.InvalidInput` with the faults of ``topics``.
    """
    _, edges, _, faults = _read(text)
    found, _ = _tables(edges, faults)
    _refuse(faults)
    return found


def _read(text: bytes) -> tuple[Document, Edges, FaultReport, Faults]:
    document = read_document(text)
    data, faults = require_mapping(document.value, "composition", "jobs"), document.faults
    report = FaultReport(faults, data)
    report_unknown_fields(data, CompositionSchema(), report)  # one of them may be the tables'
    return document, declared_edges(data, report), report, faults


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidInput(by_line(faults), "composition")
