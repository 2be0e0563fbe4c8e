"""``speck`` as a separate process that logs at level DEBUG, with all its libraries."""

from __future__ import annotations

import logging

import speck.logs
from speck import cli

_configure = speck.logs.configure


def _all(form: str, level: str) -> None:
    _configure(form, "debug")
    logging.getLogger().setLevel(logging.DEBUG)  # of libraries too


def main() -> None:
    """Run the command of this process's command line."""
    logging.basicConfig(level=logging.DEBUG)
    speck.logs.configure = _all
    cli.main()


if __name__ == "__main__":
    main()
