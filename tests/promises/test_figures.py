"""The paper's running example on four real Flink clusters and four real brokers: figure 3, then figure 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from speck import local
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.faults.flow import Listener, Sender, client
from tests.support.requirements import needs
from tests.support.trials import trial

JAR = "jars_and_apps/flink/speck-flink-jobs.jar"


pytestmark = [pytest.mark.engine, needs(ROOT / JAR)]

# The paper's hosts on four sites: of those that figure 4 adds, one is the site of B, free then, one of A.
SITE_OF = {
    "172.16.39.7": "A",
    "172.16.39.8": "B",
    "172.16.192.18": "C",
    "172.16.193.5": "D",
    "172.16.192.19": "B",
    "172.16.194.6": "A",
}


def ask(address: str, path: str) -> Any:
    answer = requests.get(f"{address.rstrip('/')}/{path}", timeout=30)
    answer.raise_for_status()
    return answer.json()


def running(address: str) -> dict[str, str]:
    """The jobs that a cluster runs: their ids by name."""
    jobs = ask(address, "jobs/overview")["jobs"]
    return {job["name"]: job["jid"] for job in jobs if job["state"] == "RUNNING"}


@contextmanager
def coordinator_on(sites: local.LocalSites, directory: Path) -> Iterator[Coordinator]:
    inventory = load_inventory(sites.inventory.read_bytes())
    with Store(directory / "store") as store:
        coordinator = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0)).coordinator
        coordinator.start()
        try:
            yield coordinator
        finally:
            coordinator.close()


def figure(name: str, sites: Mapping[str, local.LocalSite]) -> bytes:
    """A composition of the paper at these sites, its example job one that passes messages on."""
    text = (ROOT / "pipelines" / f"{name}.yaml").read_text(encoding="utf-8")
    for host, site in SITE_OF.items():
        text = text.replace(f"http://{host}:8081/", sites[site].engine.address)
        text = text.replace(f"tcp://{host}:1883", sites[site].broker.address)
    text = text.replace("package.ExampleJob", "io.speck.flink.jobs.Forward")
    return text.replace("jars_and_apps/test-1.jar", JAR).encode()


def carried_out(coordinator: Coordinator, text: bytes) -> Operation:
    loaded = load_composition(
        text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="figure"
    )
    operation, _ = user.apply(coordinator, loaded.composition)
    assert operation.wait(180)
    assert operation.state == "succeeded", operation.to_dict()
    return operation


@trial("the demo of tests/cli/test_demo.py")
def test_figure_3_becomes_figure_4_under_load(tmp_path: Path) -> None:
    engines = {name: ["flink"] for name in "ABCD"}
    with (
        local.up(tmp_path / "sites", 4, engines=engines, heap="192m") as up,
        coordinator_on(up, tmp_path) as speck,
    ):
        sites = {site.name: site for site in up.sites}
        engine = {name: site.engine.address for name, site in sites.items()}
        first = carried_out(speck, figure("figure3", sites))
        assert first.calls == {"check": 4, "submit": 4}
        before = {name: eventually(lambda at=at: running(at), bool) for name, at in engine.items()}  # type: ignore[misc]
        assert {name: list(jobs) for name, jobs in before.items()} == {name: [name] for name in "ABCD"}
        senders = [
            Sender(sites[name].broker.address, topic, 100, f"{name}{{}}".format)
            for name, topic in (("A", "T-1"), ("B", "T-2"))
        ]
        with client(sites["D"].broker.address) as connection:
            results = Listener(connection, "T-result")
            try:
                for sender in senders:
                    sender.start()
                eventually(lambda: len(results.received), lambda total: total >= 200)
                senders[1].stop()  # what B was sent before it goes is worked off
                second = carried_out(speck, figure("figure4", sites))
                there = len(results.received)
                eventually(lambda: len(results.received), lambda total: total >= there + 100)
            finally:
                sent = Counter([text for sender in senders for text in sender.stop()])
            eventually(lambda: len(results.received), lambda total: total >= sent.total())
            assert results.texts() == sent
        assert second.calls == {"check": 3, "stop": 3, "submit": 3}
        kinds = {name: (each.kind, each.state, each.note) for name, each in second.actions.items()}
        assert kinds == {
            "A": ("keep", "kept", ""),
            "B": ("stop", "done", ""),
            "C": ("update", "done", ""),
            "C2": ("start", "done", ""),
            "D": ("move", "done", ""),
        }
        after = {name: eventually(lambda at=at: running(at), bool) for name, at in list(engine.items())[:3]}  # type: ignore[misc]
        assert {name: sorted(jobs) for name, jobs in after.items()} == {
            "A": ["A", "D"],
            "B": ["C2"],
            "C": ["C"],
        }
        assert running(engine["D"]) == {}
        assert after["A"]["A"] == before["A"]["A"]  # untouched: the very same job
        assert after["C"]["C"] != before["C"]["C"]
        # The jar went to each cluster once, whatever jobs of it came and went; where none is left, it is gone
        jars = {name: len(ask(address, "jars")["files"]) for name, address in engine.items()}
        assert jars == {"A": 1, "B": 1, "C": 1, "D": 0}
