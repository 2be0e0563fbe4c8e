"""URL rules that compile their builders at first use."""

from __future__ import annotations

import functools
from typing import Any

from werkzeug.routing import Rule


class LazyRule(Rule):
    """A rule whose URLs are built rarely, if ever.

    Werkzeug compiles two builders for each rule when an application starts, two thirds of the time of
    :func:`~speck.server.api.create_app`.  If a later version of it has no such method, its rules are
    compiled as they come.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Any:
        compiled = functools.cache(functools.partial(super()._compile_builder, append_unknown))
        return lambda rule, **values: compiled()(rule, **values)
