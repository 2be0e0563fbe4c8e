"""The id of an agent's computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.agent.machine import is_machine, machine_id


def computer(root: Path, serial: str = "", **adapters: tuple[str, str, str]) -> str:
    """The id of a computer whose disk is always the same; of adapters: device, kind and address."""
    (root / "etc").mkdir(parents=True)
    (root / "etc/machine-id").write_text("a1b2\n")
    if serial:
        board = root / "sys/firmware/devicetree/base"
        board.mkdir(parents=True)
        (board / "serial-number").write_text(f"{serial}\0")
    for name, (device, kind, address) in adapters.items():
        place = root / "sys/class/net" / name
        place.mkdir(parents=True)
        (place / "addr_assign_type").write_text(f"{kind}\n")
        (place / "address").write_text(f"{address}\n")
        if device:
            (root / device).mkdir(parents=True)
            (place / "device").symlink_to(root / device)
    return machine_id(root)


def test_a_copied_disk_is_told_by_the_board(tmp_path: Path) -> None:
    adapter = {"eth0": ("pci0/eth", "0", "b8:27:eb:00:00:01")}
    assert computer(tmp_path / "first", "1000", **adapter) == "a1b2-1000"
    assert computer(tmp_path / "second", "1001", **adapter) == "a1b2-1001"


def test_a_computer_without_a_serial_number_is_known_by_an_adapter_that_is_built_in(tmp_path: Path) -> None:
    found = computer(
        tmp_path,
        docker0=("", "0", "00:00:00:00:00:01"),
        random=("pci0/random", "1", "00:00:00:00:00:02"),
        stick=("pci0/usb1/stick", "0", "00:00:00:00:00:03"),
        eth0=("pci0/eth", "0", "b8:27:eb:00:00:02"),
        wlan0=("pci0/wlan", "0", "b8:27:eb:00:00:01"),
    )
    assert found == "a1b2-b827eb000001-b827eb000002"


def test_a_container_has_the_id_of_its_system_alone(tmp_path: Path) -> None:
    assert computer(tmp_path, eth0=("", "0", "02:42:ac:11:00:02")) == "a1b2"
    assert machine_id(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("known", "same"),
    [
        ("a1b2-10-11", True),
        ("a1b2-11-12", True),
        ("a1b2", True),
        ("a1b2-12", False),
        ("a1-10", False),
        ("", False),
    ],
)
def test_one_part_of_the_board_identifies_a_computer(known: str, same: bool) -> None:
    assert is_machine(known, "a1b2-10-11") is same
    assert is_machine("a1b2-10-11", known) is same
