"""Text of compositions as plain data, with the defaults of its variables."""

from __future__ import annotations

from dataclasses import replace

from speck.schema.yaml.parser import MAX_BYTES, Document, decode, parse
from speck.schema.yaml.variables import expand, expand_parsed


def read_document(text: str | bytes, *, format: str = "yaml", max_bytes: int = MAX_BYTES) -> Document:
    """Parse a YAML or JSON document (``format``), its variables replaced by their defaults.

    Raises :class:`~speck.errors.InvalidInput`, also for a variable without a default.
    """
    decoded = decode(text, max_bytes)
    if format != "json":
        return parse(expand(decoded), max_bytes=max_bytes)
    document = parse(decoded, format=format, max_bytes=max_bytes)
    return replace(document, value=expand_parsed(document.value))
