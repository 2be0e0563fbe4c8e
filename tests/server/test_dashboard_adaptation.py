"""The dashboard's view of the adaptation loop: decisions with their reasons, steps and bans, the pause."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from speck.server.tokens import Owner, Role, Tokens, digest
from testbed.benches.decisions import BAN, HOLDING, STEPPED, deciding_server
from testbed.servers.chromium import Page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.engine

VIEW = "#/placement/traffic"
PICTURES = os.environ.get("SPECK_PICTURES")  # a directory for pictures of the page, to be looked at


def test_decisions_are_explained_and_a_pause_is_pressed(tmp_path: Path, chrome: Chrome) -> None:
    with deciding_server(tmp_path) as rest:
        page = Page(chrome, rest.url)
        page.media(prefers_color_scheme="light")
        page.complaints()
        page.open(VIEW)
        page.one("#decisions-title", "Decisions")
        text = page.text()
        for words in (
            HOLDING.reason,
            "12 times since",
            STEPPED.reason,
            "reverted",
            BAN.reason,
            "1 of 3 checks passed",
        ):
            assert words in text, words
        if PICTURES:
            page.size(1440, min(6000, page.run("return document.documentElement.scrollHeight")))
            chrome.save_screenshot(f"{PICTURES}/adaptation.png")
        page.click(".pausing button", "Pause")
        page.one(".badge", "paused")
        assert rest.services.adaptation.show("traffic")["state"] == "paused"
        page.click(".pausing button.main", "Resume")
        page.one(".badge", "watching")
        assert rest.services.adaptation.show("traffic")["paused_until"] is None
        assert page.complaints() == []
        chrome.get("about:blank")


def test_a_reader_sees_the_decisions_and_cannot_press_pause(tmp_path: Path, chrome: Chrome) -> None:
    owners = [Owner(role.value, role, digest(role.value.encode())) for role in Role]
    with deciding_server(tmp_path, Tokens(owners)) as rest:
        page = Page(chrome, rest.url).open()
        page.run("sessionStorage.setItem('speck-token', 'read')")
        page.open(VIEW)
        page.one("#decisions-title", "Decisions")
        page.until(lambda: HOLDING.reason in page.text(), "the decisions")
        page.one(".reader", "Pausing")
        assert not page.all(".pausing")
        chrome.get("about:blank")
