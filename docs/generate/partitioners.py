"""The reference of the partitioners, from their classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from docs.generate import tables
from docs.generate.tables import code, sentence, table
from jars_and_apps.key_split.partitioners.table import PARTITIONERS, Kind
from speck.core.split import DEFAULT_AT_SITES, DEFAULT_IN_ONE_JOB
from speck.core.split import PARTITIONERS as KINDS


def page() -> str:
    """The reference of all partitioners that a composition can name."""
    return tables.page(
        [
            "# Partitioners",
            "",
            "Generated from their classes. A partitioner gives the rows of a `key_split` to its workers;",
            "results never depend on it.",
            "",
            *_table(name for name, kind in KINDS.items() if not kind.comparison),
            "## For comparison",
            "",
            "Partitioners from the literature, and one that causes skew. They need no further package, and",
            "are used like any other; [the benchmarks](benchmarks.md) compare them.",
            "",
            *_table(name for name, kind in KINDS.items() if kind.comparison),
            *(line for name in KINDS for line in _section(name, PARTITIONERS[name])),
        ]
    )


def _table(names: Iterable[str]) -> list[str]:
    return table(["partitioner", "rule", "with a number of combiners"], map(_row, names))


def _row(name: str) -> list[str]:
    default = {DEFAULT_AT_SITES: ", the default over sites", DEFAULT_IN_ONE_JOB: ", the default in one job"}
    allowed = "no: it learns across batches" if KINDS[name].learns else "yes"
    return [f"[{code(name)}](#{name})", KINDS[name].about + default.get(name, ""), allowed]


def _section(name: str, kind: Kind) -> Iterator[str]:
    yield from (f"## {name}", "", *_paragraphs(kind), "")
    yield from table(
        ["option", "meaning", "default", "range"],
        (
            [
                code(option),
                sentence(about.about) + (" A whole number." if about.whole else ""),
                _number(about.default),
                f"{_number(about.low)} to {_number(about.high)}",
            ]
            for option, about in kind.options.items()
        ),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _paragraphs(kind: Kind) -> Iterator[str]:
    """The docstring of the class, after those of the classes that it is a case of, in Markdown."""
    family = [each for each in reversed(kind.partitioner.__mro__) if "OPTIONS" in vars(each)]
    for each in family or [kind.partitioner]:
        text = inspect.cleandoc(each.__doc__ or "").replace("``", "`")
        yield re.sub(r":class:`[~.\w]*?(\w+)`", r"`\1`", text)
        yield ""
