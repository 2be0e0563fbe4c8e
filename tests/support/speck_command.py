"""The command ``speck``, in this process, against the real application."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from speck import cli
from tests.support.rest_server import RestServer


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Speck = Callable[..., Said]


@pytest.fixture(name="speck")
def speck_fixture(
    rest: RestServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Speck:
    """Runs a command with these arguments."""

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["speck", "--server", rest.url, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return Said(int(ended.value.code or 0), captured.out, captured.err)

    return run
