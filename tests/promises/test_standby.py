"""A standby takes over at some points of each change; ``benchmarks.promises standby`` takes all."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from speck.client import Client, NoServer
from testbed.faults.partitions import cases, one_case, tended
from testbed.faults.standby import CHANGES, ENDS, one_round
from testbed.servers.pair import NAMES, ServedPair
from testbed.servers.rest import write_work, yaml_of
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
    """Killed, or stopped for a while: the other one takes over, and what was accepted is there.

    A client with both addresses makes a change before, and one amid the take-over.
    """
    write_work(tmp_path)
    names = list[str]()
    with ServedPair(tmp_path, module="testbed.servers.double_serve") as pair:
        client = Client(",".join(map(pair.url, NAMES)))

        def accept(name: str) -> str:
            text = yaml_of(f"job-{name} in-{name} out-{name}").encode()
            with suppress(NoServer):  # longer than a client waits, on a busy machine
                return str(client.apply(text, name)["composition"])
            return ""

        for number, end in enumerate((signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL)):
            former = tended(pair, pair.in_sync)
            before, amid = f"before-{number}", f"amid-{number}"
            assert accept(before) == before
            pair.down.add(former)
            pair.send(former, end)
            assert tended(pair, lambda amid=amid: accept(amid)) == amid
            names += [before, amid]
            assert client.url != pair.url(former)
            assert sorted(each["name"] for each in client.compositions()) == sorted(names)
            pair.send(former, signal.SIGCONT)
            pair.down.clear()
        tended(pair, pair.in_sync)
        assert {each["revision"] for each in client.compositions()} == {1}
        assert "the server exits (after a restart it is a standby)" in pair.log("a") + pair.log("b")


def test_each_way_to_cut_the_network_is_tried() -> None:
    found = {each.cuts: each.expected for each in cases()}
    assert len(found) == 19
    assert found["primary alone",] == found["primary and witness", "primary alone"] == "b"
    assert found["servers", "primary alone"] is None  # the standby is not in step by then
    assert found["all",] is None
    assert {found[each] for each in found if "standby alone" in each and "all" not in each} == {"a"}


@pytest.mark.engine  # processes of their own, for a minute
@trial("test_the_standby_carries_on")
@pytest.mark.parametrize("cuts", [("primary alone",), ("servers", "primary alone"), ("witness alone",)])
def test_the_network_of_real_servers_is_cut(tmp_path: Path, cuts: tuple[str, ...]) -> None:
    case = next(each for each in cases() if each.cuts == cuts)
    assert one_case(tmp_path, case) == []
