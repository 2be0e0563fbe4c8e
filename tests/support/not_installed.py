"""Skips the tests of servers whose program is missing here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.servers.base import NotInstalled


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a test whose fixture finds that a program is missing."""
    try:
        return (yield)
    except NotInstalled as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that finds itself that a program is missing."""
    try:
        return (yield)
    except NotInstalled as error:
        pytest.skip(str(error))
