"""Jobs whose functions import packages; ``no_such_package`` is one that no site has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

try:
    import no_such_package  # type: ignore[import-not-found]
except ImportError:
    no_such_package = None


def imported(messages: DataFrame) -> DataFrame:
    """By a function that another one calls."""
    return messages.select("value").mapInPandas(_passed, "value string")


def stateful(messages: DataFrame) -> DataFrame:
    """By a method of a class, in a nested function."""
    step = _Step().made()
    grouped = messages.select("value").groupBy("value")
    return grouped.applyInPandasWithState(step, "value string", "state string", "append", "NoTimeout")


def optional(messages: DataFrame) -> DataFrame:
    """With another way where the package is not there."""
    return messages.select("value").mapInPandas(_either, "value string")


def elsewhere(messages: DataFrame) -> DataFrame:
    """In code that no function at the site uses."""
    if "no such column" in messages.columns:
        _imports()
    return messages.select("value").mapInPandas(_same, "value string")


def found(messages: DataFrame) -> DataFrame:
    """Packages that every site with Python functions has."""
    return messages.select("value").mapInPandas(_of_pandas, "value string")


def _passed(frames: Iterator[Any]) -> Iterator[Any]:
    _imports()
    yield from frames


def _imports() -> None:
    import no_such_package.inner  # type: ignore[import-not-found]  # noqa: F401


class _Step:
    def made(self) -> Callable[..., Iterator[Any]]:
        def step(_: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
            from no_such_package import inner  # noqa: F401

            yield from frames

        return step


def _either(frames: Iterator[Any]) -> Iterator[Any]:
    try:
        import no_such_package
    except ImportError:
        no_such_package = None
    yield from frames if no_such_package is None else ()


def _same(frames: Iterator[Any]) -> Iterator[Any]:
    yield from frames


def _of_pandas(frames: Iterator[Any]) -> Iterator[Any]:
    import numpy as np
    import pandas as pd

    for frame in frames:
        yield pd.DataFrame({"value": np.array(frame["value"])})
