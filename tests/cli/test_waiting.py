"""The line that a command shows while it waits: on a terminal, after a moment."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from speck.cli import waiting as module
from speck.cli.waiting import waiting
from speck.testing.waiting import eventually
from testbed.servers.rest import RestServer, yaml_of
from testbed.servers.terminal import piped, terminal


class Tty(StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True


def console(monkeypatch: pytest.MonkeyPatch, file: StringIO) -> StringIO:
    shown = Console(file=file, force_terminal=file.isatty(), width=80)
    monkeypatch.setattr(module, "err", shown)
    return file


def test_a_slow_answer_shows_the_line_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, Tty())
    monkeypatch.setattr(module, "_SILENCE", 0.0)
    with waiting("asking [all] engines"):
        eventually(file.getvalue, lambda text: "asking [all] engines" in text)
    assert file.getvalue().endswith("\x1b[2K")  # the line is erased
    assert "\x1b[?25h" in file.getvalue()  # and the cursor is back


def test_a_quick_answer_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, Tty())
    with waiting("asking"):
        pass
    assert file.getvalue() == ""


def test_nothing_is_shown_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, StringIO())
    monkeypatch.setattr(module, "_SILENCE", 0.0)
    with waiting("asking"):
        pass
    assert file.getvalue() == ""


def test_an_error_removes_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, Tty())
    monkeypatch.setattr(module, "_SILENCE", 0.0)
    with pytest.raises(KeyboardInterrupt), waiting("asking"):
        eventually(file.getvalue, lambda text: "asking" in text)
        raise KeyboardInterrupt
    assert "\x1b[?25h" in file.getvalue()


def test_a_plan_of_slow_engines_shows_that_it_is_planned(rest: RestServer, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(yaml_of("a t0 t1", "b t1 t2"))
    assert piped(rest.url, "apply", str(path)).returncode == 0
    hold = rest.world.hold("statuses")
    with terminal(rest.url, "plan", str(path)) as shown:
        shown.shows("planning")
        hold.release()
        assert shown.end() == 0
        assert "keep    a  unchanged" in shown.text
