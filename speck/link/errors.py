"""Errors of SpecK over a connection: the name of the class, the message, and the address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speck.errors import BinderError, Fault, InvalidInput, Rejected, SpeckError, one_line

_UPDATE = "update the agent of site"  # in the answer to a call of another version, of all agents so far


def error_data(error: Exception) -> dict[str, Any]:
    """An error as JSON data: one of a binder's own class by the class of SpecK's that it inherits.

    An error that is none of SpecK's is a defect, and becomes a ``BinderError``.
    """
    if isinstance(error, InvalidInput):
        faults = [{"message": each.message, "field": each.field} for each in error.faults]
        return {"class": type(error).__name__, "faults": faults, "subject": error.subject}
    if isinstance(error, BinderError):
        known = next(each for each in type(error).__mro__ if each in _CLASSES.values())
        return {"class": known.__name__, "message": str(error), "address": error.address}
    message = str(error) if isinstance(error, SpeckError) else f"{type(error).__name__}: {one_line(error)}"
    return {"class": BinderError.__name__, "message": message, "address": ""}


def error_of(data: Mapping[str, Any]) -> SpeckError:
    """The error of :func:`error_data`; an unknown class counts as ``BinderError``."""
    if isinstance(data.get("faults"), list):
        faults = [
            Fault(str(each.get("message", "")), field=each.get("field"))
            for each in data["faults"]
            if isinstance(each, Mapping)
        ]
        return InvalidInput(faults, str(data.get("subject", "")))
    kind = _CLASSES.get(str(data.get("class")), BinderError)
    return kind(" ".join(str(data.get("message", "")).split()), address=str(data.get("address", "")))


def other_version(error: Exception, site: str, address: str) -> Rejected:
    """The answer of an agent to a call that its version does not have."""
    return Rejected(f"{error} ({_UPDATE} {site!r}, or the coordinator)", address=address)


def with_versions(error: SpeckError, versions: str) -> SpeckError:
    """An agent's error; that of :func:`other_version` with the ``versions`` of both ends."""
    if type(error) is not Rejected or f"({_UPDATE}" not in str(error):
        return error
    return Rejected(f"{error}; {versions}", address=error.address)


def _below(kind: type[BinderError]) -> Iterator[type[BinderError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


_CLASSES: Mapping[str, type[BinderError]] = {
    each.__name__: each for each in _below(BinderError) if each.__module__ == "speck.errors"
}
