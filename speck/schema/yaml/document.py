"""A document's text as plain data, its variables replaced by their defaults."""

from __future__ import annotations

from speck.schema.yaml.parser import MAX_BYTES, Document, decode, parse
from speck.schema.yaml.variables import complete, completed


def read_document(text: str | bytes, *, format: str = "yaml", max_bytes: int = MAX_BYTES) -> Document:
    """Read a YAML or JSON document, with the defaults of its variables.

    Raises :class:`~speck.errors.InvalidInput`, when a variable has none too.
    """
    decoded = decode(text, max_bytes)
    if format != "json":
        return parse(complete(decoded), max_bytes=max_bytes)
    document = parse(decoded, format=format, max_bytes=max_bytes)
    return Document(completed(document.value), document.faults)
