"""Encodes profiles as small records, and decodes them.  Only measured values are stored.

A value is a number of four digits, or a list of it, its age at ``u`` (s) and its number of samples where
they are not those of the whole profile::

    {"u": 1767225600, "n": 6, "ri": 500, "f": [0.0112, 360, 12], "b": "count"}

A job has at most :data:`LARGEST` bytes; the name of its busiest vertex is cut where it does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from speck.placement.profile import JobProfile, Known, LinkProfile, SiteProfile, Value

LARGEST = 440  # bytes
_SHORT = {
    "rate_in": "ri",
    "rate_out": "ro",
    "bytes_in": "bi",
    "bytes_out": "bo",
    "cost": "c",
    "fixed": "f",
    "selectivity": "s",
    "batch_overhead": "a",
    "state": "st",
    "true_rate_in": "ti",
    "true_rate_out": "to",
    "event_loop": "el",
    "round_trip": "rt",
    "bandwidth": "bw",
    "load": "l",
    "speed": "v",
    "cores": "k",
    "memory": "m",
}
_LONG = {short: name for name, short in _SHORT.items()}
_VALUES_OF_LINK = ("round_trip", "bandwidth", "load")
_VALUES_OF_SITE = ("speed", "cores", "memory")


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """The measurements of a link: from the acknowledgements of jobs (``passive``), and by a probe."""

    passive: LinkProfile | None = None
    active: LinkProfile | None = None


@dataclass(frozen=True, slots=True)
class CutCorrection:
    """The ratios of measured values of an input job to those of the model, at ``until`` (Unix time, s)."""

    ratios: Mapping[str, float]
    until: float


def encode_job_profile(profile: JobProfile) -> bytes:
    """The inverse of :func:`decode_job_profile` for measured values."""
    data = _values_data(profile.values())
    name = profile.busiest[:LARGEST]
    while name and len(_packed(data | {"b": name})) > LARGEST:
        name = name[:-1]
    return _packed(data | {"b": name} if name else data)


def decode_job_profile(value: bytes) -> JobProfile:
    """The measured values of a job."""
    data = json.loads(value)
    busiest = str(data.pop("b", ""))
    return JobProfile(**_values(data), busiest=busiest)


def encode_link(link: MeasuredLink) -> bytes:
    """The inverse of :func:`decode_link`."""
    pairs = {"p": link.passive, "a": link.active}
    return _packed({key: _link_data(each) for key, each in pairs.items() if each is not None})


def decode_link(source: str, target: str, value: bytes) -> MeasuredLink:
    """The measurements of the link between two sites."""
    data = json.loads(value)
    passive, active = (_link(source, target, data.get(key)) for key in ("p", "a"))
    return MeasuredLink(passive, active)


def encode_site_profile(profile: SiteProfile) -> bytes:
    """The inverse of :func:`decode_site_profile`."""
    return _packed(_values_data(_named(profile, _VALUES_OF_SITE)))


def decode_site_profile(name: str, value: bytes) -> SiteProfile:
    """The measured values of a site."""
    return SiteProfile(name=name, **_values(json.loads(value)))


def encode_cut_correction(correction: CutCorrection) -> bytes:
    """The inverse of :func:`decode_cut_correction`; the ratios have four digits."""
    ratios = {_SHORT[name]: _number(ratio) for name, ratio in correction.ratios.items()}
    return _packed({"u": round(correction.until), **ratios})


def decode_cut_correction(value: bytes) -> CutCorrection:
    """The correction of an input job at a cut."""
    data = json.loads(value)
    until = float(data.pop("u"))
    return CutCorrection({_LONG[short]: float(ratio) for short, ratio in data.items()}, until)


def _link_data(link: LinkProfile) -> dict[str, Any]:
    return _values_data(_named(link, _VALUES_OF_LINK)) | ({"least": 1} if link.at_least else {})


def _link(source: str, target: str, data: dict[str, Any] | None) -> LinkProfile | None:
    if data is None:
        return None
    at_least = bool(data.pop("least", 0))
    return LinkProfile(source=source, target=target, at_least=at_least, **_values(data))


def _named(profile: LinkProfile | SiteProfile, names: tuple[str, ...]) -> dict[str, Value]:
    found = {name: getattr(profile, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _packed(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _values_data(values: Mapping[str, Value]) -> dict[str, Any]:
    measured = {name: each for name, each in values.items() if each.known is Known.MEASURED}
    newest = max(measured.values(), key=lambda each: each.until, default=Value(0.0, Known.MEASURED))
    data: dict[str, Any] = {"u": round(newest.until), "n": newest.count}
    for name, each in measured.items():
        number, age = _number(each.value), max(0, round(newest.until) - round(each.until))
        data[_SHORT[name]] = [number, age, each.count] if age or each.count != newest.count else number
    return data


def _number(value: float) -> float | int:
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() and short < 1e6 else short


def _values(data: dict[str, Any]) -> dict[str, Any]:
    """Values by name; raises an error for anything else."""
    until, count = float(data.pop("u")), int(data.pop("n"))
    plain = Value(0.0, Known.MEASURED, until, count)
    return {_LONG[short]: _value(plain, each) for short, each in data.items()}


def _value(plain: Value, data: Any) -> Value:
    if isinstance(data, list):
        number, age, count = data
        return replace(plain, value=float(number), until=plain.until - age, count=int(count))
    return replace(plain, value=float(data))
