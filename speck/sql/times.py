"""Timestamps as numbers of milliseconds since 1970 (UTC), and their texts as of ISO 8601."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping

LOWEST, HIGHEST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = 86_400_000
_TEXT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d\d):(\d\d))?)?\Z",
    re.ASCII,
)


def time_of(text: str) -> int | None:
    """The timestamp that a text is, such as ``2026-01-31T12:00:00.5Z``; without a zone it is in UTC."""
    if (found := _TEXT.match(text)) is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.group(1, 2, 3, 4, 5, 6))
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return None
    millis = int((found[7] or "0").ljust(3, "0")[:3])
    sign, hours, minutes = found[9], int(found[10] or 0), int(found[11] or 0)
    if hours > 18 or minutes > 59:
        return None
    offset = (hours * 60 + minutes) * 60_000 * (-1 if sign == "-" else 1)
    time = (moment - _EPOCH) // datetime.timedelta(milliseconds=1) + millis - offset
    return time if LOWEST <= time <= HIGHEST else None


def text_of(time: int) -> str:
    """The text of a timestamp, in UTC, with milliseconds."""
    moment = _moment(time)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{time % 1000:03}Z"


def _moment(time: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=time)


_FIELDS: Mapping[str, Callable[[datetime.datetime], int]] = {
    "year": lambda at: at.year,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "dow": lambda at: at.isoweekday() % 7,  # 0 is Sunday
    "doy": lambda at: at.timetuple().tm_yday,
}
FIELDS = tuple(_FIELDS)
_WIDTHS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": _DAY}
UNITS = (*_WIDTHS, "week", "month", "year")


def field_of(field: str, time: int) -> int:
    """A field of a timestamp, in UTC."""
    return _FIELDS[field](_moment(time))


def truncated(unit: str, time: int) -> int | None:
    """The begin of the second, minute, hour, day, week (Monday), month or year of a timestamp, in UTC."""
    if (width := _WIDTHS.get(unit)) is not None:
        return time // width * width
    if unit == "week":
        begin = (time // _DAY + 3) // 7 * 7 - 3  # 1970-01-01 was a Thursday
        return begin * _DAY if begin * _DAY >= LOWEST else None
    moment = _moment(time)
    begin_of = moment.replace(month=1 if unit == "year" else moment.month, day=1)
    days = (begin_of - _EPOCH) // datetime.timedelta(days=1)
    return days * _DAY
