"""The command that shows the rows of a table while they come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speck.cli.options import file_argument, inventory_option, roots_option
from speck.cli.sampling import addresses, at_option, read_sites, received, subscribed, time_option
from speck.cli.terminal import err, printable
from speck.cli.variables import read_composition, values, variables_options
from speck.errors import Fault, InvalidInput
from speck.schema.address import redacted

if TYPE_CHECKING:
    from speck.core.inventory import Inventory
    from speck.schema.queries import BoundQuery
    from speck.sql.types import Column, Contract

_WIDTHS = {"timestamp": 24, "string": 16, "boolean": 5}  # characters; of any number:
_NUMBER = 12


@click.command(name="tail")
@file_argument
@click.argument("name")
@at_option
@click.option("-n", "--limit", type=click.IntRange(1), help="Number of rows after which the command ends.")
@time_option(None)
@inventory_option
@roots_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
@variables_options
def tail_query(
    file: Path,
    name: str,
    at: tuple[str, ...],
    limit: int | None,
    seconds: float | None,
    inventory: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Show rows as they arrive, until Ctrl-C: the results of query NAME of FILE, or its table NAME.

    Rows are read at the broker to which the query writes, or at the sites of the topic; --at names others.
    They are read without a session, which affects no job; a row may come again after a restart.
    Messages that do not fit the schema are listed on standard error.
    """
    from speck.sql.check import Check

    variables = values(env_files, settings, file, inventory)
    sites = read_sites(inventory, variables)
    text = read_composition(file, variables)
    table, brokers = _found(text, (file.absolute().parent, *roots), sites, name)
    if not at and not brokers:
        right = "expected --at SITE, or an address such as tcp://HOST:1883"
        raise click.UsageError(f"the file does not say at which broker {name!r} is published ({right})")
    check = Check(table)
    found = addresses(at or brokers, sites)
    with suppress(KeyboardInterrupt), subscribed(table.topic, found, sites) as feeds:
        show = _Rows(table, as_json)
        err.print(printable(_waiting(table.topic, found, limit, seconds)), style="dim", markup=False)
        for message in received(feeds, seconds):
            if (row := check.take(*message)) is None:
                err.print(printable(f"{message[0]}: {check.last}"), style="yellow", markup=False)
                continue
            show.row(row)
            if check.messages - check.unparsable == limit:
                return
    if not check.messages:
        err.print(f"no message of {table.topic} came from {', '.join(map(redacted, found))}", markup=False)


def _waiting(topic: str, brokers: Sequence[str], limit: int | None, seconds: float | None) -> str:
    """A line that says what is read where, and when the command ends."""
    rows = "" if limit is None else f"{limit:,} row{'' if limit == 1 else 's'}"
    ends = [each for each in (rows, "" if seconds is None else f"{seconds:g} s") if each]
    end = f"ends after {' or '.join(ends)}, or with Ctrl-C" if ends else "Ctrl-C to end"
    return f"waiting for messages of topic {topic!r} at {' and '.join(map(redacted, brokers))} ({end})"


def _found(text: bytes, roots: Sequence[Path], sites: Inventory, name: str) -> tuple[Contract, Sequence[str]]:
    """The results of a query, or a table, and the sites or addresses where they are published."""
    from speck.schema.queries import queries_of, tables_of

    queries, tables = queries_of(text, roots, sites), tables_of(text)
    if name in queries:
        return _results(name, queries[name])
    if name.lower() in tables:
        return tables[name.lower()], tables[name.lower()].sites
    known = ", ".join(dict.fromkeys([*queries, *tables])) or "none: the file has neither"
    raise InvalidInput([Fault(f"{name!r} is neither a query nor a table (expected one of {known})")], "name")


def _results(name: str, found: BoundQuery) -> tuple[Contract, Sequence[str]]:
    from speck.schema.for_each import ANY_SITE
    from speck.sql.types import Contract, table_name

    job, program = found.entry.data, found.query.program
    topic = str(job.get("sink_topic") or "")
    if not topic or "job_name" not in job:
        message = f"query {name!r} has no results to show (expected a job_name and a sink_topic)"
        raise InvalidInput([Fault(message)], "name")
    any_site = name == found.entry.template  # of a label that the inventory does not have
    if any_site and ANY_SITE in topic:
        right = "expected --sites FILE, an inventory with that label, and the name of one of the jobs"
        raise InvalidInput([Fault(f"query {name!r} runs at the sites of a label ({right})")], "name")
    results = Contract(topic, table_name(topic), program.format, program.output)
    place = next((job[each] for each in ("sink_broker", "rest", "site") if job.get(each)), None)
    if any_site and place == ANY_SITE:
        return results, []
    return results, [str(place)] if place else found.query.table.sites


class _Rows:
    """Prints rows: as JSON, or below a heading, in columns whose widths follow from their types."""

    def __init__(self, table: Contract, as_json: bool) -> None:
        from speck.sql.messages import encoder

        self._columns = table.columns
        self._json = encoder("json", table.columns) if as_json else None
        self._cells = [encoder("csv", [each]) for each in table.columns]
        if not as_json:
            click.echo(self._line([each.name for each in table.columns]))

    def row(self, values: Sequence[Any]) -> None:
        """Print a row at once."""
        if self._json is not None:
            click.echo(self._json(list(values)))
            return
        cells = [
            "NULL" if each is None else encode([each])
            for each, encode in zip(values, self._cells, strict=True)
        ]
        click.echo(self._line([printable(each) for each in cells]))

    def _line(self, cells: Sequence[str]) -> str:
        return "  ".join(map(_padded, self._columns, cells)).rstrip()


def _padded(column: Column, cell: str) -> str:
    width = max(len(column.name), _WIDTHS.get(column.type, _NUMBER))
    return cell.ljust(width) if column.type in _WIDTHS else cell.rjust(width)
