"""Some servers of local sites: stopped, killed and started again, one of them or all of a site at once."""

from __future__ import annotations

from pathlib import Path

from speck.binder import Registry, installed
from speck.errors import NotFound
from speck.local.sites import DEFAULT_HEAP, Server, server_of
from speck.local.starter import Progress, Starter, stop_marked
from speck.local.state import Record, ServerRecord, locked


def restart(
    directory: Path,
    site: str,
    server: str,
    *,
    kill: bool = False,
    heap: str = DEFAULT_HEAP,
    registry: Registry | None = None,
    progress: Progress = lambda _: None,
) -> Server:
    """Stop (or ``kill``) one server of a site and start it again on its ports.

    ``server`` is ``broker``, ``agent``, ``engine`` (the first of several), or a kind of engine.  Raises
    :class:`~speck.errors.NotFound` for an unknown site or server, and the errors of :func:`up`.
    """
    directory = directory.absolute()
    starter = Starter(directory, registry or installed(), heap, progress)
    with locked(directory):
        record, found = _of(directory, site, server)
        stop_marked([found], kill=kill)
        starter.start(record, [found], keep_ports=True)
        return server_of(record, found)


def stop_one(directory: Path, site: str, server: str, *, kill: bool = False) -> None:
    """Stop (or ``kill``) one server of a site; :func:`up` or :func:`restart` starts it again."""
    directory = directory.absolute()
    with locked(directory):
        _, found = _of(directory, site, server)
        stop_marked([found], kill=kill)


def lose_power(directory: Path, site: str) -> list[Server]:
    """End all servers of a site at once by SIGKILL; returns those that ran, as they were.

    Raises :class:`~speck.errors.NotFound` for an unknown site.
    """
    directory = directory.absolute()
    with locked(directory):
        record = Record.load(directory)
        servers = _of_site(record, site)
        ran = [found for found in (server_of(record, each) for each in servers) if found.pid is not None]
        stop_marked([*servers, *record.workers.get(site, ())], kill=True)
        return ran


def restore_power(
    directory: Path,
    site: str,
    *,
    heap: str = DEFAULT_HEAP,
    registry: Registry | None = None,
    progress: Progress = lambda _: None,
) -> None:
    """Start all servers of a site that do not run, on their ports, and wait until all answer.

    Raises :class:`~speck.errors.NotFound` for an unknown site, and the errors of :func:`up`.
    """
    directory = directory.absolute()
    starter = Starter(directory, registry or installed(), heap, progress)
    with locked(directory):
        record = Record.load(directory)
        dark = [each for each in _of_site(record, site) if record.process(each) is None]
        starter.start(record, dark, keep_ports=True)
        starter.start_workers(record, dark)


def _of_site(record: Record, site: str) -> list[ServerRecord]:
    if site not in record.sites:
        known = ", ".join(record.sites) or "no sites"
        raise NotFound(f"there is no site {site!r} in {record.directory} (it has {known})")
    return record.of_site(site)


def _of(directory: Path, site: str, server: str) -> tuple[Record, ServerRecord]:
    record = Record.load(directory)
    servers = _of_site(record, site)
    for found in servers:
        if server in (found.role, found.name):
            return record, found
    known = ", ".join(found.name for found in servers)
    raise NotFound(f"site {site} has no server {server!r} (it has {known})")
