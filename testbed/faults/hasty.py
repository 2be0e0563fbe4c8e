"""``speck`` itself, which waits half a minute instead of two for a start that Flink does not answer.

A request without an answer may start a job for as long as the main method of its program runs: minutes at
most, and a second or two for the programs of the trials.
"""

from __future__ import annotations

from binders.flink.rest import requests
from binders.flink.submission import launcher
from speck.cli import main as speck

PATIENCE = 30.0  # s


def main() -> None:
    """Run ``speck``."""
    requests.SLOW = launcher.PENDING = PATIENCE
    speck()
