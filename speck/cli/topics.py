"""The commands about typed topics: a schema from a sample, and messages against a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from speck.cli.options import ERROR, file_argument, inventory_option, json_option
from speck.cli.output import show_data
from speck.cli.sampling import addresses, at_option, read_sites, received, subscribed, time_option
from speck.cli.terminal import err, printable
from speck.cli.variables import read_composition, values, variables_options
from speck.cli.waiting import waiting
from speck.errors import Fault, InvalidInput

if TYPE_CHECKING:
    from speck.sql.check import Check
    from speck.sql.infer import Inferred
    from speck.sql.types import Contract

_MOST_MESSAGES = 100_000
_limit_option = click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, _MOST_MESSAGES),
    default=1000,
    show_default=True,
    help="Number of messages after which the command ends.",
)


@click.group()
def topics() -> None:
    """Infer schemas of topics, and check messages against them."""


@topics.command(name="infer")
@click.argument("topic")
@at_option
@time_option("10s")
@_limit_option
@inventory_option
@json_option
@variables_options
def infer_schema(
    topic: str,
    at: tuple[str, ...],
    seconds: float,
    limit: int,
    inventory: Path | None,
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Print a `topics:` entry for TOPIC from a sample of its messages.

    TOPIC may be a filter with + and #. The messages are read without a session, which affects no job. The
    entry fits all messages of the sample, and says in comments what it leaves out.
    """
    from speck.sql.infer import entry, infer

    if not at:
        raise click.UsageError("--at is missing (expected a site, or an address such as tcp://HOST:1883)")
    sites = read_sites(inventory, values(env_files, settings, inventory))
    with waiting(f"reading {topic}"), subscribed(topic, addresses(at, sites), sites) as feeds:
        messages = list(received(feeds, seconds, limit))
    if not messages:
        raise click.ClickException(_silence(topic, seconds))
    found = infer(topic, messages, [each for each in at if "://" not in each])
    if found is None:
        right = "expected JSON objects, or lines of CSV in UTF-8"
        raise click.ClickException(f"the {len(messages)} messages of {topic!r} have no columns ({right})")
    if not as_json:
        err.print(_summary(found), markup=False)
    show_data(_data(found), map(Text, entry(found)), as_json)


@topics.command(name="check")
@file_argument
@click.option("--table", "name", metavar="NAME", help="The table [default: the only one].")
@at_option
@time_option("10s")
@_limit_option
@inventory_option
@json_option
@variables_options
def check_messages(
    file: Path,
    name: str | None,
    at: tuple[str, ...],
    seconds: float,
    limit: int,
    inventory: Path | None,
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Read messages of a table of FILE, and list the reasons why some do not fit its schema.

    Without --at, messages are read at the sites that the topic states. All columns are checked, not only
    those that queries read. Exits 1 if a message does not fit, or none came.
    """
    from speck.sql.check import Check

    variables = values(env_files, settings, file, inventory)
    table = _table(file, name, variables)
    sites = read_sites(inventory, variables)
    check = Check(table)
    brokers = addresses(at or _places(table), sites)
    with waiting(f"reading {table.topic}"), subscribed(table.topic, brokers, sites) as feeds:
        for message in received(feeds, seconds, limit):
            check.take(*message)
    if not check.messages:
        raise click.ClickException(_silence(table.topic, seconds))
    show_data(check.to_dict(), map(Text, _lines(check)), as_json)
    raise SystemExit(ERROR if check.unparsable else 0)


def _places(table: Contract) -> tuple[str, ...]:
    """The sites of a table.  Raises :class:`click.UsageError` if its topic states none."""
    if not table.sites:
        right = f"expected --at SITE, or 'at: SITE' for topic {table.topic!r}"
        raise click.UsageError(f"table {table.name!r} has no site at which it is published ({right})")
    return table.sites


def _table(file: Path, name: str | None, variables: Mapping[str, str]) -> Contract:
    from speck.schema.queries import tables_of

    found = tables_of(read_composition(file, variables))
    if not found:
        right = "expected a topic with a schema under 'topics:'"
        raise InvalidInput([Fault(f"{file} has no table ({right})")], "composition")
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name is not None and name.lower() in found:
        return found[name.lower()]
    known = f"expected one of {', '.join(found)}"
    message = (
        f"--table is missing ({known})" if name is None else f"--table: {name!r} is not a table ({known})"
    )
    raise InvalidInput([Fault(message)], "table")


def _silence(topic: str, seconds: float) -> str:
    return f"no message of {topic!r} came in {seconds:g} s (expected one; --for sets the time)"


def _summary(found: Inferred) -> str:
    plural = "" if found.messages == 1 else "s"
    skipped = f"; {found.unparsable} of them could not be read" if found.unparsable else ""
    return f"from {found.messages} message{plural}{skipped}"


def _data(found: Inferred) -> dict[str, Any]:
    contract = found.contract
    return {
        "topic": contract.topic,
        "table": contract.name,
        "sites": list(contract.sites),
        "format": contract.format,
        "schema": {each.name: each.written_type for each in contract.columns},
        "event_time": contract.event_time,
        "event_times": list(found.times),
        "watermark_ms": contract.watermark_ms,
        "messages": found.messages,
        "unparsable": found.unparsable,
        "notes": found.notes,
    }


def _lines(check: Check) -> Iterator[str]:
    counts = f"{check.messages} messages, {check.unparsable} unparsable"
    yield f"{check.contract.name}, topic {check.contract.topic}: {counts}"
    for (_, reason), count in check.reasons.most_common():
        yield printable(f"{count:>8}  {reason}")
    if check.others:
        yield f"{check.others:>8}  other reasons"
