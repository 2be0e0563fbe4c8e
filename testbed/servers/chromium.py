"""A real browser without a window: Chromium, driven over WebDriver.

Tests that need it are skipped where it is not installed (``scripts/system-packages.sh`` installs it for
``make test`` where it may).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 90.0  # s; a busy machine must not fail a test

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    # Each server of a test is another origin: a process for each, and one in reserve, are started otherwise.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess",
    "--in-process-gpu",
)

# The elements of a selector that have a text in them, whatever its case and its blanks.
_WITH_TEXT = """
const plain = (text) => text.replace(/\\s+/g, "").toLowerCase();
const has = (each) => plain(each.innerText ?? each.textContent).includes(plain(arguments[1]));
return [...document.querySelectorAll(arguments[0])].filter(has);
"""

# Roles (WAI-ARIA 1.2) of which each needs a name.
_NAMED = frozenset(
    (
        *("button", "link", "textbox", "searchbox", "combobox", "checkbox", "progressbar", "meter"),
        *("dialog", "group", "region", "navigation", "table", "image", "img", "heading", "columnheader"),
    )
)


def missing() -> str:
    """The reason why no browser can be started; empty if one can."""
    if not any(map(shutil.which, _BROWSERS)):
        return "Chromium is not installed (apt-get install chromium)"
    return "" if shutil.which("chromedriver") else "no chromedriver (apt-get install chromium-driver)"


def start(directory: Path) -> Chrome:
    """A browser that keeps its files in a directory; the caller quits it."""
    # Here, since it takes a tenth of the time of the collection of all tests.
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, _BROWSERS)))
    for argument in (*_ARGUMENTS, f"--user-data-dir={directory}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))


@dataclass(frozen=True)
class Page:
    """The dashboard of one server in the browser; its methods wait for the elements that they use."""

    chrome: Chrome
    url: str

    def open(self, view: str = "", width: int = 1440, height: int = 900) -> Page:
        """Load the page again, without the state of another test."""
        self.size(width, height)
        self.chrome.get("about:blank")
        self.chrome.get(f"{self.url}/{view}")
        return self

    def size(self, width: int, height: int) -> None:
        """Set the size of the page, px."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, **features: str) -> None:
        """Set preferences of the reader, such as ``prefers_color_scheme="dark"``."""
        preferences = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._command("Emulation.setEmulatedMedia", features=preferences)

    def _command(self, command: str, **arguments: Any) -> None:
        self.chrome.execute_cdp_cmd(command, arguments)

    @contextlib.contextmanager
    def before_all(self, script: str) -> Iterator[None]:
        """Have each page that is loaded run this before anything else."""
        made = self.chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        try:
            yield
        finally:
            self._command("Page.removeScriptToEvaluateOnNewDocument", **made)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition and return its value; elements may come and go meanwhile."""
        from selenium.webdriver.support.ui import WebDriverWait  # here for the reason in start

        wait = WebDriverWait(self.chrome, PATIENCE, 0.1, ignored_exceptions=[StaleElementReferenceException])
        try:
            return wait.until(lambda _: condition(), what)
        except WebDriverException as error:
            shown = "\n".join((self.text(), *self.complaints()))
            raise AssertionError(f"{what}: {error.msg}\n{shown}") from error

    def all(self, selector: str) -> list[WebElement]:
        """The elements that are there now."""
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def _with(self, selector: str, text: str) -> list[WebElement]:
        """The elements that may show a text: to ask each of all for it costs a request each."""
        found: list[WebElement] = self.run(_WITH_TEXT, selector, text) if text else self.all(selector)
        return found

    def one(self, selector: str, text: str = "") -> WebElement:
        """The first element with this in its text, once there is one."""
        found: WebElement = self.until(
            lambda: next((each for each in self._with(selector, text) if text in each.text), None),
            f"{selector} with {text!r}",
        )
        return found

    def click(self, selector: str, text: str = "") -> None:
        """Click an element, once it is there and may be clicked."""

        def clicked() -> bool:
            try:
                self.one(selector, text).click()
            except (StaleElementReferenceException, ElementClickInterceptedException):
                return False  # it is being redrawn, or another element covers it
            return True

        self.until(clicked, f"to click {selector} with {text!r}")

    def sees(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.until(lambda: text in self.text(), f"the page to show {text!r}")

    def text(self) -> str:
        """The visible text."""
        return self.chrome.find_element(By.TAG_NAME, "body").text

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return its value."""
        return self.chrome.execute_script(script, *arguments)

    def ask(self, script: str, *arguments: Any) -> Any:
        """Run the body of an asynchronous function in the page and return its value."""
        self.chrome.set_script_timeout(PATIENCE)
        return self.chrome.execute_async_script(
            f"const done = arguments[arguments.length - 1]; const given = arguments;"
            f"(async () => {{ {script} }})().then(done, (error) => done('failed: ' + error))",
            *arguments,
        )

    def focus(self) -> WebElement:
        """The element that has the focus."""
        return self.chrome.switch_to.active_element

    def job(self, name: str) -> WebElement:
        """The job of this name in the graph, once it is there."""
        return self.one(f'[data-job="{name}"]')

    def job_is(self, name: str, word: str) -> None:
        """Wait until the label or the class of a job in the graph contains a word."""

        def shown() -> bool:
            element = self.job(name)
            shown = f"{element.get_attribute('aria-label')} {element.get_attribute('class')}"
            return word in shown

        self.until(shown, f"job {name} to be {word!r}")

    def complaints(self) -> list[str]:
        """The messages of the browser since the last call: errors of scripts and of the content policy."""
        return [
            each["message"]
            for each in self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
            if each["level"] in ("SEVERE", "WARNING")
        ]

    def nameless(self) -> list[str]:
        """The roles of the elements that a screen reader announces without the name that they should have."""
        self._command("Accessibility.enable")
        tree = self.chrome.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        self._command("Accessibility.disable")
        seen = [each for each in tree if not each["ignored"] and each["role"]["value"] in _NAMED]
        assert seen, "the accessibility tree is empty"
        return [each["role"]["value"] for each in seen if not each.get("name", {}).get("value", "").strip()]
