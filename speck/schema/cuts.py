"""Queries with a cut as jobs: input jobs where their table is published, and a rest, which has the windows.

They are ordinary jobs.  Their topics are below ``speck/sql/``; their names end with the input's or ``rest``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from speck.core.job import Job
from speck.core.topic import SQL_TOPICS
from speck.errors import Fault
from speck.schema.fault_report import FaultReport, Faults, listed, quoted
from speck.schema.queries import SQL, query_fields
from speck.schema.resolver import Resolver
from speck.schema.yaml.lines import line_of
from speck.sql.types import AUTO_CUT, CUTS, NO_CUT, PARTIALS, Contract

if TYPE_CHECKING:
    from speck.sql.bind import Query

Fields = Mapping[str, Any]

CUT, REST, FRAME = "cut", "rest", "frame"
MOST_NAME = 60  # characters of the name of a query with a cut; those of its jobs are longer
MOST_INPUTS = 8  # sites of a table
_PLACES = ("site", "sites", "spe_address", "source_broker", "with", "apart", "pin", "expects")


def query_jobs(
    fields: Fields, query: Query | None, resolver: Resolver, report: FaultReport
) -> tuple[Job, ...]:
    """The jobs of a query: the one that runs it, or those of its parts; none with a fault.

    ``query`` is ``None`` for one with a fault; those of the other fields are reported as well.
    """
    if query is None:
        if "site" in fields or "source_broker" in fields:  # otherwise its broker is that of its table
            resolver.job(query_fields(fields, None), report)
        return ()
    _check_partitions(query, resolver, report)
    joins = len(query.tables) > 1  # a job reads one topic
    if fields.get(CUT, NO_CUT) == NO_CUT and len(query.table.sites) < 2 and not joins:
        job = _whole(query_fields(fields, query), query, resolver, report)
        return () if job is None else (job,)
    return _Parts(fields, query, resolver, report).jobs()


def _check_partitions(query: Query, resolver: Resolver, report: FaultReport) -> None:
    """Check that rows come in the order of their topic, behind which a job keeps one watermark.

    What waits in several partitions is read one partition after the other: rows of the later ones would be
    late, and dropped.  Frames of a query without windows end by the event time, too.
    """
    windows = "has windows" if query.program.stateful else "has a 'rest'"
    for table in query.tables if query.program.stateful or report.data.get(REST) is not None else ():
        number = resolver.partitions.get(table.topic, 1)
        if number > 1:
            what = "joins" if query.program.join is not None else f"{windows} over"
            right = "expected partitions: 1, since rows of several are not in the order of their times"
            message = f"the query {what} table {table.name!r}, whose topic {table.topic!r} has {number}"
            report.add_sentence(SQL, f"sql: {message} partitions ({right})")


def _whole(fields: Fields, query: Query, resolver: Resolver, report: FaultReport) -> Job | None:
    """The job of a query without a cut, which reads at the site of its table."""
    if report.data.get(REST) is not None:
        report.add(REST, "needs a cut (expected the 'site' of the job, or 'cut: auto')")
    if report.data.get(FRAME) is not None:
        report.add(FRAME, "needs a query with a 'rest' (expected none: each row is a message of its own)")
    if query.table.sites and "source_broker" not in fields:
        if _known(query.table, resolver):
            fields = {**fields, "source_broker": query.table.sites[0]}
        elif "site" not in fields:
            return None  # its broker is that of a site which is reported as unknown
    return resolver.job(fields, report)


def _known(table: Contract, resolver: Resolver) -> bool:
    """True if the sites of a table are in the inventory; see :func:`site_faults` for the others."""
    return all(each in resolver.places.sites for each in table.sites)


def site_faults(
    queries: Iterable[Query], topics: Mapping[str, Any], resolver: Resolver, faults: Faults
) -> None:
    """Add a fault for each unknown site in ``at`` of a table that a query reads.

    ``topics`` is the data of the block, by topic.
    """
    tables = {table.topic: table for query in queries for table in query.tables}
    for topic, table in tables.items():
        inner = topics.get(topic)
        report = FaultReport(faults, inner if isinstance(inner, Mapping) else {}, subject=_subject(topic))
        for index, site in enumerate(table.sites):
            if site not in resolver.places.sites:
                path = ("at",) if isinstance(report.value(("at",)), str) else ("at", index)
                report.add(path, resolver.places.no_site(site))


def _subject(topic: str) -> str:
    return f"topics: {quoted(topic)}: "


@dataclass(frozen=True)
class _Input:
    """A table at one of its sites; ``number`` is that of the table in FROM."""

    number: int
    table: Contract
    site: str


class _Parts:
    """Makes the jobs of one query with a cut."""

    def __init__(self, fields: Fields, query: Query, resolver: Resolver, report: FaultReport) -> None:
        self._fields = fields
        self._query = query
        self._resolver = resolver
        self._report = report
        self._name = str(fields.get("job_name", ""))
        # Without windows a query has a rest only where one is given.
        self._has_rest = query.program.stateful or report.data.get(REST) is not None
        self._program = query.program
        self._by_site: list[tuple[str, Fault]] = []
        self._inputs = {
            f"{table.name}-{site.lower()}": _Input(number, table, site)
            for number, table in enumerate(query.tables)
            for site in table.sites
        }

    def jobs(self) -> tuple[Job, ...]:
        """The input jobs, then the rest."""
        self._check_inputs()
        self._check_fields()
        self._check_rest()
        cuts = self._cuts() if self._has_rest else dict.fromkeys(self._inputs, "")
        known = all(_known(table, self._resolver) for table in self._query.tables)
        if not known or not self._report.sound:
            return ()
        found = [*self._input_jobs(cuts), *([self._rest()] if self._has_rest else ())]
        self._report.extend(_once(self._by_site))
        jobs = tuple(job for job in found if job is not None)
        self._check_engines(jobs, cuts)
        return jobs if self._report.sound else ()

    # --- checks

    def _check_inputs(self) -> None:
        for table in self._query.tables:
            self._check_sites(table)

    def _check_sites(self, table: Contract) -> None:
        if not table.sites:
            right = f"expected 'at: SITE' for topic {table.topic!r} under 'topics:'"
            self._report.add(CUT, f"needs the site where table {table.name!r} is published ({right})")
        if len({each.lower() for each in table.sites}) < len(table.sites):
            right = "expected names that differ by more than case"
            self._report.add_sentence(
                SQL, f"sql: the sites of table {table.name!r} differ only in case ({right})"
            )
        if len(table.sites) > MOST_INPUTS:
            right = f"expected at most {MOST_INPUTS}"
            self._report.add_sentence(
                SQL, f"sql: table {table.name!r} has {len(table.sites)} sites ({right})"
            )

    def _check_fields(self) -> None:
        where = "expected none: its jobs run where the table is published"
        rest = "its windows" if self._query.program.stateful else "the rest"
        right = f"{where}, and {rest} at 'rest'" if self._has_rest else where
        for name in _PLACES:
            if self._report.data.get(name) is not None:
                self._report.add(name, f"does not fit a query that runs at several sites ({right})", shown="")
        if len(self._name) > MOST_NAME:
            right = f"expected at most {MOST_NAME} characters: the names of its jobs are longer"
            self._report.add("job_name", f"is too long for a query with a cut ({right})")

    def _check_rest(self) -> None:
        given = self._report.data.get(REST)
        if self._has_rest and given is None:
            self._report.add(REST, "is missing (expected the site of the windows)", shown="")
        elif given is not None and REST in self._fields and given not in self._resolver.places.sites:
            self._report.add(REST, self._resolver.places.no_site(str(given)))
        if not self._has_rest and self._report.data.get(CUT) is not None:
            right = "expected 'rest: SITE' beside it, or neither: all of it runs where the table is published"
            self._report.add(CUT, f"needs a 'rest' in a query without windows ({right})")
        if self._has_rest and not self._query.program.stateful:
            self._read_event_time()
        self._set_frame()

    def _set_frame(self) -> None:
        """Let rows wait for others of their frame as long as the job says."""
        from speck.sql.cuts import has_steps, stepped

        if self._report.data.get(FRAME) is None:
            return
        if not self._has_rest:
            right = "expected none: each row is a message of its own"
            self._report.add(FRAME, f"needs a query with a 'rest' ({right})")
        elif self._query.program.windows is not None or not has_steps(self._program):
            self._report.add(FRAME, "does not fit a query with windows (expected none: rows wait for these)")
        elif FRAME in self._fields:
            self._program = stepped(self._program, self._fields[FRAME])

    def _read_event_time(self) -> None:
        """Let a query without windows read the event time of its table, by which its frames end."""
        from speck.sql.cuts import timed

        table = self._query.table
        if table.event_time is not None:
            self._program = timed(self._program, table)
            return
        right = f"expected 'event_time: COLUMN' for topic {table.topic!r} under 'topics:'"
        self._report.add(REST, f"needs the event time of table {table.name!r} ({right})")

    def _cuts(self) -> dict[str, str]:
        """The cut of each input."""
        from speck.sql.cuts import cuts_by_table, cuts_of

        program = self._program
        if not cuts_of(program):
            return {}  # it lacks an event time
        right = f"expected {', '.join((AUTO_CUT, *cuts_of(program)))}"
        given = self._fields.get(CUT)
        if self._report.data.get(CUT) is None or given == NO_CUT:
            predicate = "is missing" if given is None else "does not fit"
            self._report.add(CUT, f"{predicate} ({right}: {self._why()})", shown=None if given else "")
            return {}
        tables = [each.name for each in self._query.tables]
        by_name = given if isinstance(given, Mapping) else dict.fromkeys(tables, given)
        offered = dict(zip(tables, cuts_by_table(program), strict=True))
        if isinstance(given, Mapping):
            self._check_named(given, offered)
        elif given is not None and given not in (AUTO_CUT, *cuts_of(program)):
            self._report.add((CUT,), f"is not a cut of this query ({right})", shown=repr(given))
            return {}
        found = {}
        for name, each in self._inputs.items():
            cut = by_name.get(name, by_name.get(each.table.name))
            if cut not in (None, AUTO_CUT) and cut not in offered[each.table.name]:
                cut = _earlier(cut, offered[each.table.name])  # of a cut for all tables
            found[name] = cut
        if missing := [each for each, cut in found.items() if cut is None and isinstance(given, Mapping)]:
            self._report.add(CUT, f"is missing for {listed(missing)} ({right})", shown="")
        return {each: str(cut) for each, cut in found.items() if cut is not None}

    def _why(self) -> str:
        """The reason why a query has a cut."""
        tables = self._query.tables
        if len(tables) > 1:
            return f"the query reads tables {' and '.join(repr(each.name) for each in tables)}"
        if not self._query.program.stateful:
            return "the query has a 'rest'"
        return f"table {tables[0].name!r} is published at {listed(list(tables[0].sites))}"

    def _check_named(self, given: Mapping[str, Any], offered: Mapping[str, Sequence[str]]) -> None:
        """Check the cuts of tables and of inputs by their names."""
        known = [*offered, *self._inputs]
        for name, cut in given.items():
            if name not in known:
                self._report.add(CUT, f"names {name!r} (expected one of {', '.join(known)})", shown="")
                continue
            table = name if name in offered else self._inputs[name].table.name
            if cut not in (None, AUTO_CUT) and cut not in offered[table]:
                right = f"expected {', '.join((AUTO_CUT, *offered[table]))}"
                self._report.add((CUT, name), f"is not a cut of this query ({right})", shown=repr(cut))

    def _check_engines(self, jobs: Iterable[Job], cuts: Mapping[str, str]) -> None:
        """Check the engines of inputs with the cut ``partials``, and of a join by time."""
        join = self._query.program.join
        for job in jobs:
            if self._resolver.has_panes(job):
                continue
            if cuts.get(str(job.query.get("input", ""))) == PARTIALS:
                right = "expected another cut, or engine: flink"
                message = f"partials does not run on engine {job.engine!r} at site {job.site!r} ({right})"
                self._report.add(CUT, message, shown="")
                return
            if job.query.get("role") == "rest" and join is not None and join.bounds is not None:
                right = "expected a site with Flink, or a join in windows"
                message = f"does not run a join by time on engine {job.engine!r} ({right})"
                self._report.add(REST, message, shown=repr(job.site))
                return

    # --- the jobs

    def _input_jobs(self, cuts: Mapping[str, str]) -> Iterator[Job | None]:
        from speck.sql.cuts import cuts_by_table, input_of

        program = self._program
        for name, each in self._inputs.items():
            cut = cuts_by_table(program)[each.number][0] if cuts[name] == AUTO_CUT else cuts[name]
            part = input_of(program, cut, each.number) if cut else program
            fields = self._part(part.to_json(), "input", name)
            fields |= {"site": each.site, "source_topic": each.table.topic}
            if cuts[name]:
                # One task keeps the rows in their order, behind which the progress is sent.
                fields |= {
                    "sink_broker": self._fields[REST],
                    "sink_topic": f"{self._topics}/{name}",
                    "parallelism": 1,
                }
                fields.pop("retain", None)
            job = self._job(fields)
            yield self._with_cuts(job, each) if job is not None and cuts[name] == AUTO_CUT else job

    def _job(self, fields: Fields) -> Job | None:
        """A job of the query, whose faults are kept with its site."""
        report = self._report.of_part()
        job = self._resolver.job(fields, report)
        self._by_site += ((str(fields["site"]), each) for each in report.faults)
        return job

    def _with_cuts(self, job: Job, of: _Input) -> Job:
        """The input job with the cuts among which SpecK chooses when a plan is made."""
        from speck.sql.cuts import cuts_by_table

        program = self._program
        found = [
            each
            for each in cuts_by_table(program)[of.number]
            if each != PARTIALS or self._resolver.has_panes(job)
        ]
        if len(self._inputs) == 1 and program.windows is not None:
            found.insert(0, NO_CUT)
        return replace(job, cuts=tuple(found))

    def _rest(self) -> Job | None:
        from speck.sql.cuts import rest_of

        inputs = [
            [name for name, each in self._inputs.items() if each.number == number]
            for number in range(len(self._query.tables))
        ]
        part = rest_of(self._program, *inputs)
        fields = self._part(part.to_json(), "rest", REST)
        fields.pop("start", None)
        topic = f"{self._topics}/+"
        return self._job({**fields, "site": self._fields[REST], "source_topic": topic})

    @property
    def _topics(self) -> str:
        """The topics between the jobs: others for frames of another form."""
        from speck.sql.cuts import form_of

        return f"{SQL_TOPICS}{self._name}/{form_of(self._program)}"

    def _part(self, program: str, role: str, name: str) -> dict[str, Any]:
        described = {"program": program, "of": self._name, "role": role}
        query = described | ({"input": name} if role == "input" else {})
        return query_fields(self._fields, self._query) | {"job_name": f"{self._name}.{name}", "query": query}


def _once(faults: Iterable[tuple[str, Fault]]) -> Iterator[Fault]:
    """The faults of jobs by site; of those with one cause, the first with the other sites."""
    groups = defaultdict[tuple[str | None, Hashable], list[tuple[str, Fault]]](list)
    for site, fault in faults:
        # One without a cause names no site, and is the same at each.
        groups[fault.field, fault.cause or fault.message].append((site, fault))
    for found in groups.values():
        first, fault = found[0]
        others = [site for site in dict.fromkeys(site for site, _ in found) if site != first]
        if others and fault.cause is not None:
            fault = replace(fault, message=f"{fault.message}; likewise at {listed(others, MOST_INPUTS)}")
        yield fault


def _earlier(cut: str, offered: Sequence[str]) -> str:
    """The last cut that a table has before another one; its first if there is none."""
    return next((each for each in reversed(offered) if CUTS.index(each) < CUTS.index(cut)), offered[0])


def parts_of(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """The names of the jobs of each query with a cut."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        if (name := job.query.get("of")) is not None:
            found.setdefault(str(name), []).append(job.job_name)
    return found


def query_name_faults(parts: Mapping[str, Sequence[str]], entries: Iterable[Any]) -> Iterator[Fault]:
    """A fault for each job of a composition with the name of a part of a query."""
    owners = {name: query for query, names in parts.items() for name in names}
    for entry in entries:
        name = entry.get("job_name") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name in owners:
            right = "expected another name: a query with a cut names its own jobs"
            message = f"job_name {name!r} is the name of a part of the query {owners[name]!r} ({right})"
            yield Fault(message, job=name, field="job_name", value=name, line=line_of(entry, "job_name"))
