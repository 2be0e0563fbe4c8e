"""The page with the map in a real browser, over a real broker; the test stands in for the jobs' messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.chromium import Page
from testbed.servers.mosquitto import PROGRAM, MosquittoServer

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytest.importorskip("shapely", reason="needs the extra `fences`")

from jars_and_apps.geofencing.fences import admitted, compact, instant

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not PROGRAM, reason="needs Mosquitto"),
]

CELL = {"type": "Polygon", "coordinates": [[[7.0, 46.8], [7.6, 46.8], [7.6, 47.2], [7.0, 47.2], [7.0, 46.8]]]}
OTHER = {
    "type": "Polygon",
    "coordinates": [[[7.6, 46.8], [8.2, 46.8], [8.2, 47.2], [7.6, 47.2], [7.6, 46.8]]],
}
RECEIVED = instant("2026-11-01T00:00:00Z")
MARKUP = "<img src=x onerror='window.broken=1'>"


def at(seconds: int) -> str:
    return f"2026-03-02T07:00:{seconds:02}.000Z"


class Map:
    """The page of a process of its own, and what passes its broker."""

    def __init__(self, broker: MosquittoServer, chrome: Chrome) -> None:
        self.mqtt_client = MqttClient(broker.port, "#")
        brokers = [f"--broker={site}={broker.address}" for site in "AB"]
        command = [
            sys.executable,
            "-m",
            "jars_and_apps.geofencing.page",
            *brokers,
            f"--cloud={broker.address}",
            "--port=0",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        self.page = Page(chrome, self.process.stdout.readline().strip())

    def came(self, topic: str) -> list[dict[str, Any]]:
        """The messages of a topic."""
        return [json.loads(text) for name, text in list(self.mqtt_client.received) if name == topic]

    def draw(self, fence: str, geometry: object, time: str) -> None:
        """Have a fence drawn, and admitted."""
        feature = {"type": "Feature", "geometry": geometry, "properties": {"time": time, "dwell": 60}}
        self.mqtt_client.send(f"fences/{fence}", [compact(feature)])
        self.admit(fence, feature)

    def admit(self, fence: str, feature: dict[str, Any]) -> None:
        record = admitted(f"fences/{fence}", compact(feature).encode(), RECEIVED, 5000)
        self.mqtt_client.send("admitted", [compact(record)])

    def move(self, mover: str, longitude: float, seconds: int) -> None:
        geometry = {"type": "Point", "coordinates": [longitude, 47.0]}
        feature = {"type": "Feature", "id": mover, "geometry": geometry, "properties": {"time": at(seconds)}}
        self.mqtt_client.send("geo/positions", [compact(feature)])

    def click_at(self, x: float, y: float) -> None:
        """Click a place on the map, in shares of its size."""
        from selenium.webdriver import ActionChains  # here for the reason in testbed.servers.chromium.start

        element = self.page.one("#map")
        right, down = ((share - 0.5) * element.size[name] for share, name in ((x, "width"), (y, "height")))
        ActionChains(self.page.chrome).move_to_element_with_offset(element, right, down).click().perform()

    def close(self) -> None:
        self.page.chrome.get("about:blank")
        self.process.terminate()
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.mqtt_client.close()


@pytest.fixture(name="shown")
def shown_fixture(tmp_path: Path, chrome: Chrome) -> Iterator[Map]:
    with MosquittoServer(tmp_path) as broker:
        found = Map(broker, chrome)
        yield found
        found.close()


def test_a_fence_is_shown_asked_about_and_redrawn_by_hand(shown: Map) -> None:
    page = shown.page
    page.media(prefers_color_scheme="dark")
    page.complaints()
    shown.draw("cell", CELL, at(1))
    shown.draw("other", OTHER, at(1))
    page.open("")
    page.sees("live")
    shown.move("bus-1", 7.3, 10)
    entered = {
        "time": at(10),
        "event": "enter",
        "mover": "bus-1",
        "fence": "cell",
        "position": [7.3, 47.0],
        "site": "A",
    }
    shown.mqtt_client.send("events", [compact(entered), compact({"event": "rejected", "reason": MARKUP})])
    page.one("#events .enter", "bus-1 · cell")
    page.one("#events", MARKUP)
    page.until(lambda: "2" in page.one("#counts div:nth-child(2) dd").text, "two fences to be counted")

    shown.click_at(0.25, 0.3)
    page.one("#chosen", "cell")
    page.one("#chosen dd", "admitted")
    (question,) = eventually(lambda: shown.came("tracks/questions")[1:], bool)
    assert question["fence"] == "cell"
    shown.mqtt_client.send("events", [answer(question, cell_of("bus-1"))])
    page.one("#chosen", f"1 at {at(10)[11:19]}")

    page.click("#chosen button", "Redraw")
    for x, y in ((0.55, 0.3), (0.8, 0.3), (0.8, 0.6)):
        shown.click_at(x, y)
    page.click("#save")
    page.one("#message", "Fence cell was sent; it holds from 07:00:15.")
    (_, redrawn) = eventually(lambda: shown.came("fences/cell"), lambda found: len(found) == 2)
    assert redrawn["properties"] == {"dwell": 60, "time": at(15)}
    (ring,) = redrawn["geometry"]["coordinates"]
    assert len(ring) == 4
    assert all(7.6 < longitude < 8.3 and 46.7 < latitude < 47.3 for longitude, latitude in ring)
    page.one("#chosen dd", "not admitted yet")
    shown.admit("cell", redrawn)
    page.until(lambda: "not admitted" not in page.one("#chosen").text, "the version to be admitted")

    # Its old place is empty now: a click there leaves it chosen.
    shown.click_at(0.2, 0.8)
    assert "cell" in page.one("#chosen").text
    page.one("#name").send_keys("bus-1\n")
    page.one("#chosen", "asking")
    assert page.complaints() == []
    assert page.nameless() == []
    assert not page.run("return window.broken")


def cell_of(mover: str) -> list[dict[str, Any]]:
    return [{"mover": mover, "time": at(10), "position": [7.3, 47.0], "site": "A", "in": {"cell": at(10)}}]


def answer(question: dict[str, Any], movers: list[dict[str, Any]]) -> str:
    head = {"event": "answer", "question": question["question"], "reached": at(10), "part": 0, "parts": 1}
    return compact(head | {"movers": movers, "shard": 0, "shards": 1})


def test_what_is_drawn_badly_is_refused_with_its_reason(shown: Map) -> None:
    page = shown.page
    shown.draw("cell", CELL, at(1))
    page.open("", width=390, height=844)
    page.sees("live")
    page.until(lambda: "1" in page.one("#counts div:nth-child(2) dd").text, "the fence to be counted")
    page.click("#draw")
    page.one("#new-name").send_keys("new")
    for x, y in ((0.2, 0.3), (0.5, 0.3)):
        shown.click_at(x, y)
    page.run("document.getElementById('drawing').requestSubmit()")
    page.one("#message.bad", "three corners or more")
    for x, y in ((0.2, 0.6), (0.5, 0.6)):  # its sides cross
        shown.click_at(x, y)
    page.run("document.getElementById('drawing').requestSubmit()")
    page.one("#message.bad", "fence 'new': its Polygon is not valid: Self-intersection")
    assert shown.came("fences/new") == []
    page.run("document.getElementById('undo').click(); document.getElementById('drawing').requestSubmit()")
    page.one("#message", "Fence new was sent")
    ((sent),) = eventually(lambda: shown.came("fences/new"), bool)
    assert len(sent["geometry"]["coordinates"][0]) == 4
    width = page.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
