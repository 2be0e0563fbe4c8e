"""The fixtures that several test modules share."""

from __future__ import annotations

from tests.fixtures import PLUGINS

pytest_plugins = PLUGINS
