"""A standby takes over at some points of each change; ``benchmarks.promises standby`` takes all."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from speck.testing.waiting import eventually
from testbed.faults.standby import CHANGES, ENDS, one_round
from testbed.servers.pair import NAMES, ServedPair
from testbed.servers.rest import yaml_of
from tests.support.trials import trial


@pytest.mark.slow("a coordinator is ended amid a change, and another one takes over")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("change", "moment"), [*((each, 12) for each in CHANGES), ("update", 30)])
def test_the_standby_carries_on(tmp_path: Path, change: str, end: str, moment: int) -> None:
    found = one_round(tmp_path, change, end, moment)
    assert found.reached
    assert found.wrong == ()


@pytest.mark.engine  # processes of their own, for a minute
@trial("test_the_standby_carries_on")
def test_real_servers_replace_each_other(tmp_path: Path) -> None:
    """Killed, or stopped for a while: the other one takes over, and what was accepted is there."""
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    with ServedPair(tmp_path, module="testbed.servers.double_serve") as pair:
        for number, end in enumerate((signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL)):
            former = tended(pair, pair.in_sync)
            accept(pair.url(former), f"c{number}")
            pair.down.add(former)
            pair.send(former, end)
            other = next(each for each in NAMES if each != former)
            tended(pair, lambda other=other: pair.health(other) and other)
            found = requests.get(f"{pair.url(other)}/compositions", timeout=30).json()
            names = [each["name"] for each in found]
            assert names == [f"c{each}" for each in range(number + 1)]
            pair.send(former, signal.SIGCONT)
            pair.down.clear()
        tended(pair, pair.in_sync)
        assert "the server ends (started again, it is a standby)" in pair.log("a") + pair.log("b")


def tended(pair: ServedPair, found: Callable[[], str | None]) -> str:
    """The first answer that is not empty, while both servers are started again whenever they end."""

    def look() -> str | None:
        pair.tend()
        return found()

    name = eventually(look, bool, 180)
    assert name
    return name


def accept(url: str, name: str) -> None:
    """Apply a composition with one job."""
    text = yaml_of(f"job-{name} in-{name} out-{name}")
    headers = {"Content-Type": "application/yaml"}
    answer = requests.post(
        f"{url}/compositions", data=text, params={"name": name}, headers=headers, timeout=60
    )
    assert answer.ok, answer.text
