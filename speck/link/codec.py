"""Values of the contract as JSON, read by the annotations of the methods and dataclasses that they belong to.

Fields that have their default are left out.  Bytes are base64.  An error that is a value, as in the answer of
``measure``, is an object with the key ``$error``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from speck.errors import SpeckError
from speck.link.errors import error_data, error_of

_ERROR = "$error"
_PLAIN = (str, int, float, bool)


class Malformed(ValueError):
    """Data that does not have the form of its annotation; the message names the place and the value."""


def encode(value: Any) -> Any:
    """A value of the contract as JSON data."""
    if value is None or (isinstance(value, _PLAIN) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, SpeckError):
        return {_ERROR: error_data(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: encode(given)
            for each in dataclasses.fields(value)
            if (given := getattr(value, each.name)) != _default(each)
        }
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): encode(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [encode(each) for each in value]
    raise TypeError(f"{type(value).__name__} is not a value of the contract")


def decode(hint: Any, data: Any, place: str = "value", *, strict: bool = True) -> Any:
    """The value of an annotation from JSON data.  Raises :class:`Malformed`.

    Without ``strict``, unknown fields are left out, as those of a later version.
    """
    if hint is Any:
        return data
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _of_union(get_args(hint), data, place, strict=strict)
    if origin is not None:
        return _of_generic(origin, get_args(hint), data, place, strict=strict)
    if hint is None or hint is type(None):
        return _checked(data is None, None, data, place, "null")
    if hint in _PLAIN:
        return _of_plain(hint, data, place)
    if hint is bytes:
        return _bytes(data, place)
    if issubclass(hint, Enum):
        return _of_enum(hint, data, place)
    if issubclass(hint, SpeckError):
        return error_of(_mapping(_mapping(data, place).get(_ERROR), place))
    return _of_dataclass(hint, data, place, strict=strict)


def _of_plain(hint: type, data: Any, place: str) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    fits = isinstance(data, hint) and (hint is bool or not isinstance(data, bool))
    return _checked(fits, data, data, place, hint.__name__)


def _of_enum(hint: type[Enum], data: Any, place: str) -> Enum:
    try:
        return hint(data)
    except ValueError:
        raise _malformed(data, place, f"one of {[each.value for each in hint]}") from None


def _of_union(hints: tuple[Any, ...], data: Any, place: str, *, strict: bool) -> Any:
    if data is None and type(None) in hints:
        return None
    errors = [each for each in hints if isinstance(each, type) and issubclass(each, SpeckError)]
    if errors and isinstance(data, Mapping) and _ERROR in data:
        return decode(errors[0], data, place)
    others = [each for each in hints if each is not type(None) and each not in errors]
    exact = [each for each in others if each in _PLAIN and type(data) is each]
    for hint in exact or others:
        try:
            return decode(hint, data, place, strict=strict)
        except Malformed:
            if hint is (exact or others)[-1]:
                raise
    raise _malformed(data, place, "another value")


def _of_generic(origin: Any, arguments: tuple[Any, ...], data: Any, place: str, *, strict: bool) -> Any:
    part = partial(decode, strict=strict)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {
            key: part(arguments[1], each, f"{place}.{key}") for key, each in _mapping(data, place).items()
        }
    if not isinstance(data, list):
        raise _malformed(data, place, "a list")
    if origin is tuple and arguments[-1] is not Ellipsis:
        _checked(len(data) == len(arguments), data, data, place, f"{len(arguments)} values")
        pairs = zip(arguments, data, strict=True)
        return tuple(part(hint, each, f"{place}[{number}]") for number, (hint, each) in enumerate(pairs))
    found = [part(arguments[0], each, f"{place}[{number}]") for number, each in enumerate(data)]
    return tuple(found) if origin is tuple else found


def _of_dataclass(hint: type, data: Any, place: str, *, strict: bool) -> Any:
    given, known = _mapping(data, place), _fields(hint)
    unknown = given.keys() - known.keys()
    if unknown and strict:
        raise Malformed(
            f"{place} has the unknown field {min(unknown)!r} (expected {', '.join(sorted(known))})"
        )
    values = {
        name: decode(known[name], each, f"{place}.{name}", strict=strict)
        for name, each in given.items()
        if name in known
    }
    try:
        return hint(**values)
    except (TypeError, SpeckError) as error:
        raise Malformed(f"{place}: {error}") from error


@cache
def _fields(hint: type) -> Mapping[str, Any]:
    if not dataclasses.is_dataclass(hint):
        raise TypeError(f"{hint.__name__} is not a value of the contract")
    hints = get_type_hints(hint)
    return {each.name: hints[each.name] for each in dataclasses.fields(hint)}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    made: Callable[[], Any] | Any = field.default_factory
    return made() if made is not dataclasses.MISSING else dataclasses.MISSING


def _bytes(data: Any, place: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _malformed(data, place, "base64") from None


def _mapping(data: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _malformed(data, place, "an object")
    return data


def _checked(fits: bool, value: Any, data: Any, place: str, expected: str) -> Any:
    if not fits:
        raise _malformed(data, place, expected)
    return value


def _malformed(data: Any, place: str, expected: str) -> Malformed:
    shown = repr(data)
    return Malformed(f"{place} is {shown[:60]}{'...' if len(shown) > 60 else ''} (expected {expected})")
