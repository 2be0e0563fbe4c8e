"""marshmallow fields whose messages are ends of sentences: the name and value come before them.

``source_topic 'a/#/b'`` + ``has a misplaced '#' (expected it alone at the end, as in 'a/#')``
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, pre_load

from speck.core.inventory import Secret
from speck.errors import InvalidInput
from speck.schema.fault_report import not_scalar, not_text, show, unreadable
from speck.schema.secret_detection import secret_fault
from speck.schema.units import Unit

NO_REFERENCE = (
    "is not a reference (expected ${NAME} of the server's environment, or file:PATH; "
    "the secret itself is never written here)"
)
MAX_TEXT = 4096
MAX_CHECKED = 200_000  # characters that are looked at; a topic, the longest of all, has 65,535 bytes
MAX_MAPPING_TEXT = 64 * 1024


def _metadata(**metadata: Any) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


class StrictSchema(Schema):
    """A schema that refuses fields it does not know, and reads an empty field as one left out."""

    error_messages = {"unknown": "is unknown", "type": "is not a mapping"}  # noqa: RUF012 - marshmallow's way

    @pre_load
    def drop_empty(self, data: Any, **_: Any) -> Any:
        """An empty YAML value (``site:``) is null, and means the default."""
        if not isinstance(data, Mapping) or None not in data.values():
            return data
        return {key: value for key, value in data.items() if value is not None or key not in self.load_fields}


class Text(fields.String):
    """Text without control characters.  ``check`` says what else is wrong with it, or ``None``."""

    def __init__(
        self,
        description: str,
        *,
        expected: str = "text",
        check: Callable[[str], str | None] | None = None,
        example: object = None,
        enum: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        missing: dict[str, Any] = {"required": f"is missing (expected {expected})"}
        metadata = _metadata(description=description, example=example, enum=enum)
        super().__init__(error_messages=missing, metadata=metadata, **kwargs)
        self.expected = expected
        self.check = check

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        fault = not_text(value) or self._fault(value)
        if fault is not None:
            raise ValidationError(fault)
        return str(value)

    def _fault(self, value: str) -> str | None:
        if len(value) > MAX_CHECKED:
            return f"is too long (expected at most {MAX_CHECKED:,} characters)"
        if self.check is not None:
            return self.check(value)
        if not value.strip():
            return f"is empty (expected {self.expected})"
        if len(value) > MAX_TEXT:
            return f"is too long (expected at most {MAX_TEXT:,} characters)"
        return unreadable(value)


class Choice(Text):
    """One of a few words."""

    def __init__(self, description: str, choices: list[str], **kwargs: Any) -> None:
        expected = " or ".join(choices)

        def check(value: str) -> str | None:
            return None if value in choices else f"is not known (expected {expected})"

        super().__init__(description, expected=expected, check=check, enum=choices, **kwargs)


class WholeNumber(fields.Integer):
    """A whole number of at least one; text and fractions are not taken for one."""

    def __init__(self, description: str, *, at_most: int, example: int, **kwargs: Any) -> None:
        metadata = _metadata(description=description, example=example, minimum=1, maximum=at_most)
        super().__init__(strict=True, metadata=metadata, **kwargs)
        self.at_most = at_most

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= self.at_most:
            raise ValidationError(f"is not a whole number from 1 to {self.at_most:,}")
        return int(value)


class _FlatMapping(fields.Dict):
    """A mapping of text to single values."""

    _of = "text"

    def __init__(self, description: str, *, example: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(metadata=_metadata(description=description, example=example), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValidationError(f"is not a flat mapping (expected names to {self._of})")
        faults = {key: [fault] for key, inner in value.items() if (fault := self._entry_fault(key, inner))}
        if faults:
            raise ValidationError(faults)
        size = sum(len(key) + len(str(inner)) for key, inner in value.items())
        if size > MAX_MAPPING_TEXT:
            raise ValidationError(f"has {size:,} characters (expected at most {MAX_MAPPING_TEXT:,})")
        return dict(value)

    def _entry_fault(self, key: str, value: object) -> str | None:
        raise NotImplementedError


class Arguments(_FlatMapping):
    """What is handed to a job: identifiers to text, numbers, true or false."""

    _of = "text, numbers, true or false"

    def _entry_fault(self, key: str, value: object) -> str | None:
        if not (key.isascii() and key.isidentifier()) or keyword.iskeyword(key):
            return "has a bad name (expected letters, digits and '_', and no Python keyword)"
        return not_scalar(value) or secret_fault(key, value)


class Labels(_FlatMapping):
    """Free text for people, by name."""

    def _entry_fault(self, key: str, value: object) -> str | None:
        if not key.strip() or unreadable(key):
            return "has a bad name (expected text)"
        return not_text(value) or unreadable(str(value), "\n\r\t") or secret_fault(key, value)


class Quantity(fields.Field[Any]):
    """A number with a unit, or a bare number in the base unit; ``convert`` makes the value of it."""

    def __init__(
        self, description: str, unit: Unit, convert: Callable[[Any], Any] = float, **kwargs: Any
    ) -> None:
        either = [{"type": "string"}, {"type": "number"}]
        super().__init__(
            metadata=_metadata(description=description, example=unit.example, oneOf=either), **kwargs
        )
        self.unit = unit
        self.convert = convert

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValidationError(f"is not a quantity (expected, for example, {show(self.unit.example)})")
        try:
            return self.convert(self.unit.parse(value))
        except ValueError as error:
            raise ValidationError(str(error)) from error


class SecretReference(fields.String):
    """A reference to a secret; a message never repeats what was written instead."""

    def __init__(self, description: str) -> None:
        super().__init__(metadata=_metadata(description=description, example="${BROKER_PASSWORD}"))

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        try:
            return Secret(value)
        except (InvalidInput, TypeError) as error:
            raise ValidationError(NO_REFERENCE) from error

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return value.reference if isinstance(value, Secret) else None
