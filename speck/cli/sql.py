"""The commands about queries of SQL jobs; none of them reaches a server or an engine."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speck.cli.options import file_argument, file_path, json_option, roots_option
from speck.cli.output import show_data
from speck.cli.tail import tail_query
from speck.cli.terminal import err
from speck.cli.variables import read_composition, values, variables_options
from speck.errors import Fault, InvalidInput

if TYPE_CHECKING:
    from speck.schema.queries import BoundQuery
    from speck.sql.bind import Query
    from speck.sql.evaluate import Outcome

_DIFFERS = 1
_job_option = click.option("--job", "name", metavar="NAME", help="The job [default: the only one, or all].")


@click.group()
def sql() -> None:
    """Explain and try queries of SQL jobs, and show their rows."""


sql.add_command(tail_query)


@sql.command(name="explain")
@file_argument
@_job_option
@roots_option
@json_option
@variables_options
def explain_query(
    file: Path,
    name: str | None,
    roots: tuple[Path, ...],
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Show the operators of the queries of FILE, their types and their state.

    No server, engine or broker is contacted.
    """
    found = _queries(file, roots, values(env_files, settings, file))
    chosen = _folded(found) if name is None else {name: _chosen(found, name)}
    data = [_data(job, query) for job, query in chosen.items()]
    show_data(data, [line for each in data for line in _lines(each)], as_json)


@sql.command(name="try")
@file_argument
@_job_option
@click.option(
    "--rows",
    "given",
    multiple=True,
    required=True,
    metavar="[TABLE=]FILE",
    help="Messages that the query reads, one per line.",
)
@click.option("--expect", type=file_path, metavar="FILE", help="Expected messages; exit 1 for others.")
@roots_option
@json_option
@variables_options
def try_query(
    file: Path,
    name: str | None,
    given: tuple[str, ...],
    expect: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Run a query of FILE on a few messages, and print its results, one per line.

    All windows are closed at the end of the messages. Messages that do not fit the schema are listed on
    standard error. No server, engine or broker is contacted.
    """
    from speck.sql.evaluate import evaluate_tables

    query = _chosen(_queries(file, roots, values(env_files, settings, file)), name)
    paths = _rows_files(given, query)
    lines = [path.read_bytes().splitlines() for path in paths]
    tables = zip(query.tables, lines, strict=True)
    outcome = evaluate_tables(
        query.program, [[(table.topic, line) for line in found] for table, found in tables]
    )
    differences = [] if expect is None else list(_differences(expect, outcome))
    data = {
        "messages": outcome.messages,
        "unparsable": _unparsable(outcome, paths, lines),
        "late": outcome.late,
        "differences": differences,
    }
    if not as_json:
        _show_left_out(data)
    show_data(data, differences if expect is not None else outcome.messages, as_json)
    if not as_json:
        _show_silence(sum(map(len, lines)), outcome, differences, is_compared=expect is not None)
    raise SystemExit(_DIFFERS if differences else 0)


def _unparsable(
    outcome: Outcome, paths: Sequence[Path], lines: Sequence[Sequence[bytes]]
) -> list[dict[str, Any]]:
    """The messages that do not fit the schema, by file and line, as plain data."""
    places = [
        (path, line + 1) for path, found in zip(paths, lines, strict=True) for line in range(len(found))
    ]
    return [
        {"file": str(places[index][0]), "line": places[index][1], "reason": reason}
        for index, reason in outcome.unparsable
    ]


def _show_left_out(data: Mapping[str, Any]) -> None:
    """Show on standard error the messages that are in no result."""
    for each in data["unparsable"]:
        err.print(f"{each['file']}, line {each['line']}: {each['reason']}", style="yellow", markup=False)
    if data["late"]:
        err.print(f"late rows, which are in no window: {data['late']}", style="yellow", markup=False)


def _show_silence(given: int, outcome: Outcome, differences: list[str], *, is_compared: bool) -> None:
    """Say what a command has done that has printed no result."""
    if is_compared and not differences:
        err.print(f"results as expected: {len(outcome.messages)}")
    elif not outcome.messages:
        err.print(f"no results from {given} message{'s' * (given != 1)}")


def _queries(file: Path, roots: tuple[Path, ...], variables: Mapping[str, str]) -> dict[str, BoundQuery]:
    from speck.schema.queries import queries_of

    found = queries_of(read_composition(file, variables), (file.absolute().parent, *roots))
    if not found:
        raise InvalidInput(
            [Fault(f"{file} has no job with a query (expected one with 'sql:')")], "composition"
        )
    return found


def _folded(found: Mapping[str, BoundQuery]) -> dict[str, Query]:
    """The queries; those of one ``for_each`` that are alike are one, by its name with ``*``."""
    groups: dict[str, dict[str, Query]] = {}
    for name, each in found.items():
        groups.setdefault(each.entry.template or name, {})[name] = each.query
    folded: dict[str, Query] = {}
    for template, queries in groups.items():
        first, *others = queries.values()
        alike = others and all(each == first for each in others)
        folded |= {template: first} if alike else queries
    return folded


def _chosen(found: Mapping[str, BoundQuery], name: str | None) -> Query:
    folded = _folded(found)
    if name is None and len(folded) == 1:
        return next(iter(folded.values()))
    if name is not None and name in found:
        return found[name].query
    if name is not None and name in folded:
        return folded[name]
    known = ", ".join(folded)
    message = (
        f"--job is missing (expected one of {known})"
        if name is None
        else f"job {name!r} has no query (expected one of {known})"
    )
    raise InvalidInput([Fault(message)], "job")


def _rows_files(given: tuple[str, ...], query: Query) -> list[Path]:
    """The files of the tables that the query reads, in their order."""
    names = [each.name for each in query.tables]
    right = f"expected {' and '.join(f'{each}=FILE' for each in names)}"
    found: dict[str, Path] = {}
    for each in given:
        table, _, path = each.rpartition("=")
        name = table.lower() or names[0]
        if not table and len(names) > 1:
            raise click.BadParameter(f"{each!r} names no table ({right})")
        if name not in names:
            raise click.BadParameter(f"{table!r} is not a table of the query ({right})")
        if name in found:
            raise click.BadParameter(f"table {name!r} is given twice ({right})")
        if not Path(path).is_file():
            raise click.BadParameter(f"{path!r} is not a file")
        found[name] = Path(path)
    if missing := [each for each in names if each not in found]:
        raise click.BadParameter(f"the rows of table {missing[0]!r} are missing ({right})")
    return [found[each] for each in names]


def _differences(expect: Path, outcome: Outcome) -> Iterator[str]:
    """The lines that are missing or too many, whatever their order."""
    expected = sorted(line for line in expect.read_text("utf-8").splitlines() if line)
    for line in difflib.unified_diff(
        expected, sorted(outcome.messages), str(expect), "results", lineterm="", n=0
    ):
        if not line.startswith("@@"):
            yield line


def _data(job: str, query: Query) -> dict[str, Any]:
    from speck.sql.cuts import cuts_of, timed
    from speck.sql.explain import operators

    program = query.program
    table = query.table
    may_have_rest = not program.stateful and bool(table.sites) and table.event_time is not None
    return {
        "job": job,
        "table": query.table.name,
        "topic": query.table.topic,
        "operators": [{"name": name, "text": text} for name, text in operators(program)],
        "output": [
            {"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in program.output
        ],
        "tables": [{"name": each.name, "topic": each.topic} for each in query.tables],
        "stateful": program.stateful,
        "cuts": list(cuts_of(timed(program, table) if may_have_rest else program)),
        "program": program.to_dict(),
    }


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    tables = " and ".join(f"table {each['name']}, topic {each['topic']}" for each in data["tables"])
    yield f"{data['job']}: reads {tables}"
    width = max(8, *(len(each["name"]) for each in data["operators"]))
    for each in data["operators"]:
        yield f"  {each['name']:<{width}} {each['text']}"
    yield f"  {'state':<{width}} {_state(data)}"
    if data["cuts"]:
        yield f"  {'cuts':<{width}} {', '.join(data['cuts'])}"


def _state(data: Mapping[str, Any]) -> str:
    if "join" in data["program"]:
        by_time = data["program"]["join"]["bounds"] is not None
        return "the rows that may find another one" if by_time else "the rows of each open window"
    return "the totals of each key in each open window" if data["stateful"] else "none"
