"""Contracts of one topic compared: of its writer, of its readers, and as it is declared."""

from __future__ import annotations

from collections.abc import Iterator

from speck.sql.program import FRAME, TOPIC_POSITION, Program
from speck.sql.types import Column, Contract, Type

# Types that a reader takes for another one of the writer.
_WIDER = {(Type.INT, Type.BIGINT), (Type.INT, Type.DOUBLE), (Type.BIGINT, Type.DOUBLE)}


def mismatches(written: Contract, declared: Contract) -> Iterator[str]:
    """The faults of what a query writes against the declared contract of its topic."""
    if written.format != declared.format:
        yield (
            f"the messages of {declared.topic!r} are {declared.format}, and the query writes "
            f"{written.format} (expected format: {declared.format})"
        )
        return
    for place, column in enumerate(declared.columns):
        at = place if written.format == "csv" else None
        yield from _column_faults(_found(written.columns, column, at), column, declared.topic)


def reader_faults(writer: Program, reader: Program, *, former: bool = False) -> Iterator[str]:
    """The faults of what one query writes against what another one reads.

    A ``former`` writer may lack a nullable column: its messages are from before there was one.  In a line of
    CSV each column has its place.
    """
    if writer.format != reader.input.format:
        yield f"its messages are {writer.format} (expected {reader.input.format})"
        return
    if writer.format == FRAME:
        return  # frames of another form have another topic
    for column, position in zip(reader.input.columns, reader.input.positions, strict=True):
        if position != TOPIC_POSITION:
            at = position if writer.format == "csv" else None
            found = _found(writer.output, column, at)
            if found is not None or at is not None or not (former and column.nullable):
                yield from _column_faults(found, column, "")


def _found(columns: tuple[Column, ...], sought: Column, at: int | None) -> Column | None:
    if at is not None:
        return columns[at] if at < len(columns) else None
    return next((each for each in columns if each.name == sought.name), None)


def _column_faults(found: Column | None, column: Column, topic: str) -> Iterator[str]:
    of = f" of {topic!r}" if topic else ""
    expected = f"expected {column.written_type}"
    if found is None:
        yield f"column {column.name!r}{of} is missing ({expected})"
    elif found.name != column.name:
        yield f"column {found.name!r} is in the place of column {column.name!r}{of} ({expected})"
    elif not fits(found, column):
        yield f"column {column.name!r}{of} is {found.written_type} ({expected})"


def fits(written: Column, read: Column) -> bool:
    """True if a reader understands each value of a written column."""
    same = written.type is read.type or (written.type, read.type) in _WIDER
    return same and written.unit is read.unit and (read.nullable or not written.nullable)
