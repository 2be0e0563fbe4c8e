"""The command ``speck``, in this process, against the real application."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from speck import cli
from testbed.servers.rest import RestServer


@dataclass(frozen=True)
class Output:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Speck = Callable[..., Output]


@pytest.fixture(name="speck")
def speck_fixture(
    rest: RestServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Speck:
    """A function that runs a command with these arguments."""

    def run(*arguments: str) -> Output:
        monkeypatch.setattr(sys, "argv", ["speck", "--server", rest.url, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return Output(int(ended.value.code or 0), captured.out, captured.err)

    return run
