"""Time zones of jobs: names of the IANA Time Zone Database."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

UTC = "UTC"

_LIKE_UTC = frozenset(
    {UTC, "Etc/UTC", "Etc/UCT", "UCT", "Etc/GMT", "GMT", "Etc/Universal", "Universal", "Zulu", "Z"}
)

# Names that Java, and so an engine, does not have: abbreviations of fixed offsets, and files without a place.
_NOT_IN_JAVA = frozenset({"EST", "HST", "MST", "ROC", "GMT+0", "GMT-0", "Factory", "localtime"})


def is_utc(name: str) -> bool:
    """True if a zone of this name, as engines report theirs, has the local times of UTC all year."""
    return name in _LIKE_UTC


def timezone_fault(name: str) -> str | None:
    """The fault of the name of a time zone, as a predicate; ``None`` if it is valid."""
    if name in _names():
        return None
    near = _near(name)
    hint = f"did you mean {near!r}?" if near else "such as Europe/Berlin or America/New_York, or UTC"
    return f"is not a time zone (expected a name of the IANA Time Zone Database; {hint})"


@cache
def _names() -> frozenset[str]:
    import zoneinfo  # not in an agent, to which 0.5 MB are much

    # Of the system's database, and of the package tzdata where the system has none.
    return frozenset(zoneinfo.available_timezones()) - _NOT_IN_JAVA


def _near(name: str) -> str | None:
    by_lower_case = {each.lower(): each for each in _names()}
    spelled = name.strip().replace(" ", "_").lower()
    cities = {each.rpartition("/")[2]: each for each in sorted(by_lower_case)}
    close = get_close_matches(spelled, by_lower_case, n=1, cutoff=0.8)
    found = spelled if spelled in by_lower_case else cities.get(spelled) or (close[0] if close else "")
    return by_lower_case.get(found)
