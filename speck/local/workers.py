"""Workers of the engines of local sites, as servers of their own: started, stopped, replaced if they die."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speck.binder import Registry, installed
from speck.errors import LocalError, NotFound
from speck.local.starter import Progress, Starter
from speck.local.state import Record, ServerRecord, locked


def scale(
    directory: Path,
    site: str,
    count: int,
    *,
    engine: str = "",
    stop: Sequence[str] = (),
    registry: Registry | None = None,
    progress: Progress = lambda _: None,
) -> list[str]:
    """Set the number of workers of a site's engine; returns the names of those started and stopped.

    ``engine`` is its address, needed where several engines of the site have workers.  Workers that died are
    replaced; those with the ids in ``stop``, by the engine, are stopped first, then the last ones.  Does not
    wait until the engine has registered them.

    Raises :class:`~speck.errors.NotFound` for an unknown site or engine, and
    :class:`~speck.errors.LocalError` for one without workers of its own, one that does not run, and a number
    beyond its bounds.
    """
    directory = directory.absolute()
    with locked(directory):
        record = Record.load(directory)
        found = _engine(record, site, engine)
        if not found.least <= count <= found.most:
            raise LocalError(
                f"site {site}: {count} workers (expected {found.least} to {found.most}, as set at the start)"
            )
        if record.process(found) is None:
            raise LocalError(f"site {site}: the engine {found.kind} does not run (expected: speck local up)")
        starter = Starter(directory, registry or installed(), found.heap, progress)
        return starter.scale(record, found, count, stop)


def address_of(directory: Path, site: str, engine: str = "") -> str:
    """The address of the engine that :func:`scale` takes; raises as it does."""
    return _engine(Record.load(directory.absolute()), site, engine).address


def _engine(record: Record, site: str, address: str) -> ServerRecord:
    if site not in record.sites:
        known = ", ".join(record.sites) or "no sites"
        raise NotFound(f"there is no site {site!r} in {record.directory} (it has {known})")
    able = [each for each in record.sites[site] if each.most]
    found = [each for each in able if address in ("", each.address)]
    if not able:
        raise LocalError(
            f"site {site} has no engine with workers (expected: speck local up --workers {site}=1-4)"
        )
    if not found:
        known = ", ".join(each.address for each in able)
        raise NotFound(f"site {site} has no engine {address!r} with workers (it has {known})")
    if len(found) > 1:
        known = " or ".join(each.address for each in found)
        raise LocalError(f"site {site} has several engines with workers (expected --engine {known})")
    return found[0]
