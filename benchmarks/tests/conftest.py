"""The fixtures of the tests of benchmarks: those of all tests."""

from __future__ import annotations

from tests.fixtures import PLUGINS

pytest_plugins = PLUGINS
