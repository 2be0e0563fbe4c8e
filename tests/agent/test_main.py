"""The agent's process where its directory cannot be used."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from speck.agent.__main__ import main
from speck.agent.site_file import SiteFile, write_site_file
from speck.core.inventory import Engine, Secret, Site
from testbed.servers.base import REFUSING_PORT

SITE = Site(
    name="A",
    engines=(Engine(spe_address=f"http://127.0.0.1:{REFUSING_PORT}"),),
    broker_address=f"tcp://127.0.0.1:{REFUSING_PORT}",
    agent=True,
)


def refuse(path: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


@pytest.mark.parametrize("name", ["secrets", "code", "attempts", "lock"])
def test_an_agent_on_a_read_only_disk_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    token = Secret(f"file:{tmp_path / 'token'}")
    write_site_file(tmp_path, SiteFile(site=SITE, coordinator="ws://127.0.0.1:1", token=token))
    mkdir, opened = Path.mkdir, os.open

    def make(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == name:
            refuse(path)
        mkdir(path, *arguments, **options)

    def open_(path: Any, *arguments: Any, **options: Any) -> int:
        if Path(path).name == name:
            refuse(path)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main(tmp_path) == 1
    reason = "Read-only file system (expected a directory that the agent can write to)"
    assert capsys.readouterr().err == f"error: {tmp_path / name}: {reason}\n"
