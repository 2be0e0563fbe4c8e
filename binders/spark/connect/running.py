"""The running queries of a Connect server, and the marks that say whose they are.

Spark keeps nothing of a query that another session could read but its name.  The marks are system properties
of the server's Java process, one for each run: they live as long as the queries do, and outlive the client.
A query without them (of an earlier version, or whose coordinator ended right after the start) has its name
only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from urllib.parse import parse_qs, urlencode

from binders.spark.connect.probe import ServerProbe
from binders.spark.query.marks import Marks
from speck.core.runtime import Found
from speck.errors import BinderError, Rejected

_PREFIX = "speck.query."
_WRITTEN = re.compile(r"speck\.query\.([0-9a-f-]{36})=([\w.~%&=+-]*)")
# The pieces alone: other properties of the server may be secret.
_PROPERTIES = "java_method('java.lang.System', 'getProperties')"
_LISTED = f"to_json(regexp_extract_all({_PROPERTIES}, 'speck[.]query[.][^,}}]*', 0))"


class RunningQueries:
    """The running queries of one server."""

    def __init__(self, address: str, probe: ServerProbe) -> None:
        self.address = address
        self._probe = probe

    def mark(self, run: str, marks: Marks) -> None:
        """Mark a run that was just started; without a response it stays unmarked, and runs."""
        self._call("setProperty", f"{_PREFIX}{run}", urlencode(marks.present(), safe=""))

    def forget(self, run: str) -> None:
        """Delete the marks of a run that has ended."""
        self._call("clearProperty", f"{_PREFIX}{run}")

    def _call(self, method: str, *arguments: str) -> None:
        quoted = ", ".join(f"'{each}'" for each in ("java.lang.System", method, *arguments))
        with suppress(BinderError):
            self._probe.evaluate(f"java_method({quoted})")

    def list(self) -> list[Found]:
        """The queries of all sessions, each by its run's id, with the marks that it has.

        Raises :class:`~speck.errors.Rejected` if the server cannot list them.
        """
        running = self._probe.running()
        if running is None:
            raise Rejected(
                f"{self.address} cannot list its queries (expected a local master)", address=self.address
            )
        marks = marks_by_run(self._probe.evaluate(_LISTED)) if running else {}
        found = [(query, marks.get(query.run_id)) for query in running]
        return [
            Found(query.run_id, query.name)
            if known is None or known.job != query.name
            else known.found(query.run_id)
            for query, known in found
        ]


def marks_by_run(listed: str) -> Mapping[str, Marks]:
    """The marks by the ids of runs, of a list of properties as text; without those that have no attempt."""
    found = {}
    for run, text in _WRITTEN.findall(listed):
        written = parse_qs(text)
        marks = Marks(**{each.name: written.get(each.name, [""])[0] for each in fields(Marks)})
        if re.fullmatch("[0-9a-f]{32}", marks.attempt):
            found[run] = marks
    return found
