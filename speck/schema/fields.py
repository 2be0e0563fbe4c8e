"""Kinds of fields of the documents, over marshmallow.

Their messages are predicates, before which :class:`~speck.schema.fault_report.FaultReport` sets the field's
name and value: ``source_topic 'a/#/b'`` + ``has a misplaced '#' (expected ...)``.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from marshmallow import Schema, ValidationError, fields, pre_load

from speck.core.inventory import Secret
from speck.core.units import Unit
from speck.errors import InvalidInput
from speck.schema.fault_report import kind_of_value, quoted, show
from speck.schema.secret_detection import secret_fault
from speck.schema.value_faults import character_fault, number_fault, scalar_fault, text_fault
from speck.schema.yaml.lines import written_in
from speck.sql.types import AUTO_CUT, CUTS, NO_CUT, TOPIC, WINDOW_COLUMNS, Column, column_of

NO_REFERENCE = (
    "is not a reference to a secret (expected ${NAME}, a variable of the server's environment, or "
    "file:PATH; never write the secret itself here)"
)
MAX_TEXT = 4096
MAX_CHECKED = 200_000  # characters; a topic, the longest of all values, has at most 65,535 bytes
MAX_MAPPING_TEXT = 64 * 1024  # arguments reach Flink's programs and drivers by a command line
MOST_COLUMNS = 256  # of a topic
MAX_COLUMN = 100  # characters of the name of a column
RESERVED_COLUMNS = (*WINDOW_COLUMNS, TOPIC)
_FIRST_FIELDS = 3  # named where a mapping is expected
_MOST_SHAPES = 32  # sets of fields that are remembered


def _metadata(**metadata: Any) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


class StrictSchema(Schema):
    """A schema that rejects unknown fields, and treats an empty field as absent."""

    error_messages = {"unknown": "is unknown"}  # noqa: RUF012 - marshmallow's way

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = list(self.load_fields)
        first = ", ".join(f"'{name}:'" for name in names[:_FIRST_FIELDS])
        others = " and others" if len(names) > _FIRST_FIELDS else ""
        self.error_messages = {**self.error_messages, "type": f"(expected a mapping with {first}{others})"}

    @pre_load
    def drop_empty(self, data: Any, **_: Any) -> Any:
        """Remove known fields with an empty YAML value (``site:``, which is null): they mean the default."""
        if not isinstance(data, Mapping) or None not in data.values():
            return data
        return {key: value for key, value in data.items() if value is not None or key not in self.load_fields}

    def sound(self, data: object) -> dict[str, Any] | None:
        """The fields of a mapping without any fault; ``None`` for one whose faults :meth:`load` is to tell.

        Marshmallow visits every field of a schema, most of which are absent from each of the many mappings of
        a long document.
        """
        if not isinstance(data, Mapping):
            return None
        given = self.drop_empty(data)
        if (present := self.present(tuple(given))) is None:
            return None
        try:
            return {name: field.deserialize(given[key], key, given) for key, name, field in present}
        except ValidationError:
            return None

    @cached_property
    def present(self) -> Any:
        """The key, the name and the field of each key of a tuple; ``None`` if one is unknown or missing.

        It is determined once for the mappings with the same keys.
        """
        return lru_cache(maxsize=_MOST_SHAPES)(self._find_present)

    def _find_present(self, keys: tuple[str, ...]) -> list[tuple[str, str, fields.Field[Any]]] | None:
        required = {key for key, field in self.load_fields.items() if field.required}
        if not required <= set(keys) <= self.load_fields.keys():
            return None
        found = ((key, field) for key, field in self.load_fields.items() if key in keys)
        return [(key, field.attribute or key, field) for key, field in found]


class Text(fields.String):
    """Text without control characters.  ``check`` returns a further fault as a predicate, or ``None``."""

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
        missing: dict[str, Any] = {
            "required": f"is missing (expected {expected})",
            "null": f"is empty (expected {expected})",
        }
        metadata = _metadata(description=description, example=example, enum=enum)
        super().__init__(error_messages=missing, metadata=metadata, **kwargs)
        self.expected = expected
        self.check = check

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **kwargs: Any) -> Any:
        """The text; sooner than by marshmallow's general steps, of which text needs none.

        Raises :class:`marshmallow.ValidationError`.
        """
        if type(value) is str and self._fault(value) is None:
            return value
        return super().deserialize(value, attr, data, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        fault = text_fault(value, self.expected)
        if fault is None:
            fault = self._fault(value)
        elif self.check is not None and isinstance(value, bool | int | float):
            fault = self.check(str(value)) or fault  # in quotes, it would be no better
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
        return character_fault(value)


class Switch(fields.Boolean):
    """True or false; text and numbers are faults."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        super().__init__(metadata=_metadata(description=description, example=True), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise ValidationError(f"is {kind_of_value(value)} (expected true or false)")


class Names(fields.List[Any]):
    """A list of names without repetition, as a tuple."""

    def __init__(self, description: str, inner: Text, *, example: object, **kwargs: Any) -> None:
        super().__init__(inner, metadata=_metadata(description=description, example=example), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list):
            raise ValidationError(f"is {kind_of_value(value)} (expected a list of names)")
        if not value:
            raise ValidationError("is empty (expected one name or more)")
        names: list[Any] = super()._deserialize(value, attr, data, **kwargs)
        if repeated := [name for name, number in Counter(names).items() if number > 1]:
            raise ValidationError(f"has {quoted(repeated[0])} twice (expected each name once)")
        return tuple(names)


class NameOrNames(fields.Field[Any]):
    """A name, or a list of names without repetition; a tuple in both cases."""

    def __init__(self, description: str, inner: Text, *, example: str, **kwargs: Any) -> None:
        either = [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
        super().__init__(metadata=_metadata(description=description, example=example, oneOf=either), **kwargs)
        self.names = Names(description, inner, example=[example])

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str | list):
            raise ValidationError(f"is {kind_of_value(value)} (expected a name, or a list of names)")
        return self.names.deserialize([value] if isinstance(value, str) else value, attr, data, **kwargs)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> list[str] | None:
        return None if value is None else list(value)


class Choice(Text):
    """One of several words."""

    def __init__(self, description: str, choices: list[str], **kwargs: Any) -> None:
        *others, last = choices
        expected = f"{', '.join(others)} or {last}" if others else last

        def check(value: str) -> str | None:
            return None if value in choices else f"is not known (expected {expected})"

        super().__init__(description, expected=expected, check=check, enum=choices, **kwargs)


class Mode(Choice):
    """A choice with the word ``off``, which YAML reads as false."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        return super()._deserialize("off" if value is False else value, attr, data, **kwargs)


class WholeNumber(fields.Integer):
    """A whole number from 1 to ``at_most``; text and fractions are faults."""

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
    """A mapping of text to scalar values."""

    _of = "text"

    def __init__(self, description: str, *, example: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(metadata=_metadata(description=description, example=example), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValidationError(f"is not a flat mapping (expected a mapping of names to {self._of})")
        texts = written_in(value)
        faults = {
            key: [fault]
            for key, inner in value.items()
            if (fault := self._entry_fault(key, inner, texts.get(key)))
        }
        if faults:
            raise ValidationError(faults)
        size = sum(len(key) + len(str(inner)) for key, inner in value.items())
        if size > MAX_MAPPING_TEXT:
            raise ValidationError(f"has {size:,} characters (expected at most {MAX_MAPPING_TEXT:,})")
        return dict(value)

    def _entry_fault(self, key: str, value: object, written: str | None) -> str | None:
        """The fault of an entry; ``written`` is its text, if YAML reads it otherwise than it looks."""
        raise NotImplementedError


class Arguments(_FlatMapping):
    """Arguments of a job: identifiers to text, finite numbers, true or false."""

    _of = "text, numbers, true or false"

    def _entry_fault(self, key: str, value: object, written: str | None) -> str | None:
        if (secret := secret_fault(key, value)) is not None:
            return secret
        if not (key.isascii() and key.isidentifier()) or keyword.iskeyword(key):
            return "has an invalid name (expected letters, digits and '_', and no Python keyword)"
        return scalar_fault(value, written)


class Labels(_FlatMapping):
    """Free text by name."""

    def _entry_fault(self, key: str, value: object, written: str | None) -> str | None:
        if (secret := secret_fault(key, value)) is not None:
            return secret
        if not key.strip() or character_fault(key):
            return "has an invalid name (expected text)"
        return text_fault(value, written=written) or character_fault(str(value), "\n\r\t")


class Numbers(_FlatMapping):
    """Finite numbers by name."""

    _of = "numbers"

    def _entry_fault(self, key: str, value: object, written: str | None) -> str | None:
        if (fault := number_fault(value)) is not None:
            return f"is {fault} (expected a number)"
        return None


class Quantity(fields.Field[Any]):
    """A number with a unit, or a bare number in the base unit; ``convert`` makes the field's value.

    It is more than 0 if it is ``positive``, and within ``bounds`` (in the base unit) where they are given.
    """

    def __init__(
        self,
        description: str,
        unit: Unit,
        convert: Callable[[Any], Any] = float,
        *,
        positive: bool = False,
        bounds: tuple[float, float] | None = None,
        **kwargs: Any,
    ) -> None:
        bare = [{"type": "number"}] if unit.has_bare else []
        either = [{"type": "string"}, *bare]
        super().__init__(
            metadata=_metadata(description=description, example=unit.example, oneOf=either), **kwargs
        )
        self.unit = unit
        self.convert = convert
        self.positive = positive
        self.bounds = bounds

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValidationError(f"is not a quantity (expected, for example, {show(self.unit.example)})")
        try:
            found = self.unit.parse(value)
        except ValueError as error:
            raise ValidationError(str(error)) from error
        if self.positive and not found:
            raise ValidationError(f"is not more than 0 (expected, for example, {self.unit.example})")
        if self.bounds is not None and not self.bounds[0] <= float(found) <= self.bounds[1]:
            low, high = (f"{each:,}" if isinstance(each, int) else f"{each:g}" for each in self.bounds)
            unit = f" {self.unit.base}" if self.unit.base else ""
            raise ValidationError(f"is out of range (expected from {low} to {high}{unit})")
        return self.convert(found)


class SecretReference(fields.String):
    """A reference to a secret; messages never repeat an invalid value, which may be the secret."""

    def __init__(self, description: str) -> None:
        super().__init__(metadata=_metadata(description=description, example="${BROKER_PASSWORD}"))

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        try:
            return Secret(value)
        except (InvalidInput, TypeError) as error:
            raise ValidationError(NO_REFERENCE) from error

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return value.reference if isinstance(value, Secret) else None


class NameOrPlace(fields.Nested):
    """The name of a site, or a place with more properties; a mapping in both cases."""

    def __init__(self, schema: type[StrictSchema], description: str, *, example: object) -> None:
        empty: dict[str, Any] = {"null": "is empty (expected a site's name, or a mapping)"}
        super().__init__(
            schema, error_messages=empty, metadata=_metadata(description=description, example=example)
        )

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **kwargs: Any
    ) -> Any:
        if isinstance(value, str):
            return {"site": value}
        if not isinstance(value, Mapping):
            raise ValidationError(f"is {kind_of_value(value)} (expected a site's name, or a mapping)")
        return super()._deserialize(value, attr, data, partial, **kwargs)


class NumberOrPlaces(fields.Field[Any]):
    """A number, or a list of places: each the name of a site, or a mapping; from 1 to ``at_most``."""

    def __init__(self, inner: NameOrPlace, description: str, *, at_most: int, example: object) -> None:
        number = {"type": "integer", "minimum": 1, "maximum": at_most}
        places = {"type": "array", "items": {}, "minItems": 1, "maxItems": at_most}
        either = _metadata(description=description, example=example, oneOf=[number, places])
        super().__init__(metadata=either)
        self.inner = inner
        self.at_most = at_most

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(value)
        if not isinstance(value, list):
            right = "expected a number for one Spark job, or a list of sites"
            raise ValidationError(f"is {kind_of_value(value)} ({right})")
        if not 1 <= len(value) <= self.at_most:
            right = f"expected from 1 to {self.at_most:,} sites"
            raise ValidationError(f"has {len(value):,} entries ({right})")
        return self._places(value, kwargs)

    def _number(self, value: int) -> int:
        if not 1 <= value <= self.at_most:
            raise ValidationError(f"is not a whole number from 1 to {self.at_most:,}")
        return value

    def _places(self, value: list[Any], kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
        found, faults = [], dict[int, Any]()
        for index, each in enumerate(value):
            try:
                found.append(self.inner.deserialize(each, None, None, **kwargs))
            except ValidationError as error:
                faults[index] = error.messages
        if faults:
            raise ValidationError(faults)
        return found


class Cut(fields.Field[Any]):
    """The cut of a query, or of each of its tables or inputs by name."""

    def __init__(self, description: str, *, example: object) -> None:
        one = {"type": "string", "enum": [AUTO_CUT, *CUTS]}
        forms = [
            {"type": "object", "additionalProperties": one},
            {"type": "string", "enum": [AUTO_CUT, *CUTS, NO_CUT]},
        ]
        super().__init__(metadata=_metadata(description=description, example=example, oneOf=forms))

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        names = ", ".join((AUTO_CUT, *CUTS))
        if isinstance(value, Mapping) and value:
            if wrong := [name for name, each in value.items() if each not in (AUTO_CUT, *CUTS)]:
                raise ValidationError({name: [f"is not a cut (expected {names})"] for name in wrong})
            return {str(name).lower(): each for name, each in value.items()}
        if value not in (AUTO_CUT, *CUTS, NO_CUT):
            raise ValidationError(
                f"is not a cut (expected {names}, {NO_CUT}, or a mapping of tables to cuts)"
            )
        return value


class Columns(fields.Dict):
    """The columns of a topic, as a tuple of :class:`~speck.sql.types.Column`, from the type of each."""

    def __init__(self, description: str, *, example: object) -> None:
        super().__init__(
            keys=fields.String(),
            values=fields.String(),
            metadata=_metadata(description=description, example=example),
        )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, Mapping) or not value:
            kind = "empty" if value == {} else kind_of_value(value)
            raise ValidationError(f"is {kind} (expected a mapping of columns to types)")
        if len(value) > MOST_COLUMNS:
            raise ValidationError(f"has {len(value)} columns (expected at most {MOST_COLUMNS})")
        found, faults, seen = [], dict[str, Any](), set[str]()
        for name, written in value.items():
            try:
                found.append(_column(str(name), written, seen))
            except ValueError as error:
                faults[name] = {"value": [str(error)]}
        if faults:
            raise ValidationError(faults)
        return tuple(found)


def _column(name: str, written: object, seen: set[str]) -> Column:
    """A column by its name and its type.  Raises :class:`ValueError`."""
    if not name.isidentifier() or len(name) > MAX_COLUMN:
        raise ValueError("is not a column name (expected letters, digits and '_', the first no digit)")
    if name.lower() in RESERVED_COLUMNS:
        raise ValueError(
            f"is the name of a column that SpecK adds (expected none of {', '.join(RESERVED_COLUMNS)})"
        )
    if name.lower() in seen:
        raise ValueError("is given twice (column names are case-insensitive)")
    seen.add(name.lower())
    if (fault := text_fault(written, "a type, such as string")) is not None:
        raise ValueError(fault)
    return column_of(name, str(written))
