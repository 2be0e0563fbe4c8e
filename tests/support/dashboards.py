"""The dashboard of a real server with two sites, over engines in memory, in the browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from speck.core.inventory import Inventory, Uplink
from speck.core.runtime import JobState
from speck.server.tokens import Tokens
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer, rest_server

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SCRIPTS = ROOT / "testbed" / "programs" / "browser"

SITES = Inventory(
    {
        name: replace(
            one_site(
                name, f"sc://{name.lower()}.example:15002", f"tcp://{name.lower()}.example:1883", slots=8
            ),
            uplink=Uplink(bandwidth=10e6, latency=20.0),
        )
        for name in "AB"
    }
)


def composition(*jobs: str, name: str = "demo") -> str:
    """A composition of jobs that are each ``NAME SITE READS WRITES [FIELD: VALUE; ...]``."""
    lines = [f"name: {name}", "jobs:"]
    for job in jobs:
        called, site, reads, writes, *rest = job.split(maxsplit=4)
        lines += [f"- job_name: {called}", f"  site: {site}", f"  source_topic: {reads}"]
        lines += [f"  sink_topic: {writes}", "  entry_class: work", "  job_path: work.py"]
        lines += [f"  {each.strip()}" for each in "".join(rest).split(";") if each.strip()]
    return "\n".join(lines) + "\n"


THREE = composition("clean A raw clean", "count A clean counts", "join B clean-b all")


def script(name: str) -> str:
    """A script for the browser."""
    return (SCRIPTS / f"{name}.js").read_text()


@contextlib.contextmanager
def dashboard(
    directory: Path, chrome: Chrome, token: str | Tokens | None = None
) -> Iterator[tuple[RestServer, Page]]:
    with rest_server(directory, SITES, token) as rest:
        page = Page(chrome, rest.url)
        page.size(1440, 900)
        page.media(prefers_color_scheme="light")
        page.complaints()
        yield rest, page
        chrome.get("about:blank")  # the stream of the server that is about to end


@pytest.fixture(name="at")
def at_fixture(tmp_path: Path, chrome: Chrome) -> Iterator[tuple[RestServer, Page]]:
    """A server with two sites, and the browser."""
    with dashboard(tmp_path, chrome) as found:
        yield found


def deploy(rest: RestServer, text: str, message: str = "") -> dict[str, Any]:
    operation = rest.client.apply(text.encode(), "demo", wait=60, message=message)
    assert operation["state"] == "succeeded", operation
    observe(rest)
    return operation


def observe(rest: RestServer) -> None:
    """Observe the engines now, as the reconciler does each round."""
    rest.coordinator.observer.observe(rest.coordinator.deployments.snapshots()[0].deployed())


def fail(rest: RestServer, job: str, reason: str = "it crashed") -> None:
    """Let a job fail, and observe the engines."""
    rest.world.crash(job, reason, state=JobState.FAILED)
    observe(rest)


def paste(page: Page, text: str) -> None:
    """Paste a text into the form for changes, and ask for its plan."""
    page.one("textarea")
    page.run(
        """const area = document.querySelector("textarea");
        area.focus(); area.select(); document.execCommand("insertText", false, arguments[0]);""",
        text,
    )
    page.click("form button", "Plan")


def confirm(page: Page, button: str, word: str = "Apply") -> None:
    page.click(".plan .panel-head button", button)
    page.click("dialog button", word)


def press(page: Page, key: str) -> None:
    """Press a key at the focused element."""
    from selenium.webdriver import ActionChains  # here for the reason in testbed.servers.chromium.start

    ActionChains(page.chrome).send_keys(key).perform()


def enter(page: Page, token: str) -> None:
    """Enter a token in the dialog that asks for one."""
    page.one("dialog input").send_keys(token)
    page.click("dialog button", "Sign in")
