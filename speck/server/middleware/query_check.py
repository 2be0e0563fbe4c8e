"""Refuses query parameters that a route does not have: ``?dryrun=true`` must not apply anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from flask import Flask, Response, request

from speck.core.suggestions import did_you_mean
from speck.schema.fault_report import show
from speck.server.api import problems

# The parameters of each method and path by name; true for those that may be given several times.
Known = Mapping[tuple[str, str], Mapping[str, bool]]


def register(app: Flask, known: Callable[[], Known]) -> None:
    """Make the application check the query of each request to a documented route.

    ``known`` is first called for a request that has a query.
    """

    @app.before_request
    def check() -> Response | None:
        if request.url_rule is None or not request.query_string:
            return None
        method = "GET" if request.method == "HEAD" else request.method
        names = known().get((method, re.sub("<([^>]+)>", r"{\1}", request.url_rule.rule)))
        wrong = [] if names is None else _faults(names)
        if not wrong:
            return None
        return problems.problem(422, "; ".join(each["message"] for each in wrong), faults=wrong)


def _faults(names: Mapping[str, bool]) -> list[dict[str, str]]:
    given = request.args.to_dict(flat=False)
    unknown = [{"field": name, "message": _unknown(name, names)} for name in given if name not in names]
    twice = [name for name, values in given.items() if not names.get(name, True) and len(values) > 1]
    twice_message = "query parameter {!r} is given twice (expected once)"
    return unknown + [{"field": name, "message": twice_message.format(name)} for name in twice]


def _unknown(name: str, names: Mapping[str, bool]) -> str:
    known = f"the parameters are {', '.join(sorted(names))}" if names else "this path takes none"
    return f"unknown query parameter {show(name)} ({did_you_mean(name, names, known)})"
