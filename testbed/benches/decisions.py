"""A composition with the mode ``auto`` over engines in memory, and a memory of what its loop decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speck.client import Client
from speck.core.adaptation import AdaptationState, Ban, Decision, Entry, StepOutcome, StepRecord, Trigger
from speck.server.tokens import Tokens
from testbed.benches.placement import NOW, ROAD_TRAFFIC, Profiler, inventory, kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, rest_server

AUTO = ROAD_TRAFFIC.replace("jobs:\n", "placement: {mode: auto}\njobs:\n", 1)
GROUP = ("clean-a", "local-a")

HOLDING = Entry(
    at=NOW - 60,
    since=NOW - 720,
    decision=Decision.HOLD,
    trigger=Trigger.PERIOD,
    reason="a gain of 4% of the objective is below 15%",
    repeated=12,
)
STEPPED = Entry(
    at=NOW - 1000,
    since=NOW - 1000,
    decision=Decision.STEP,
    trigger=Trigger.LINK,
    reason="clean-a, local-a from D to A: the objective falls by 31%",
    jobs=GROUP,
    source="D",
    target="A",
    gain=0.31,
)
STEP = StepRecord(
    jobs=GROUP,
    source="D",
    target="A",
    at=NOW - 1000,
    due=NOW - 960,
    objective=1.02,
    predicted=0.7,
    age_p95=1.9,
    revision=2,
    outcome=StepOutcome.BACK,
    windows=3,
    good=1,
)
BAN = Ban(jobs=GROUP, target="A", until=NOW + 300, times=1, reason="it gains 3% of the objective")
MEMORY = AdaptationState(revision=1, entries=(STEPPED, HOLDING), steps=(STEP,), bans=(BAN,))


@contextmanager
def deciding_server(
    directory: Path, tokens: Tokens | None = None, memory: AdaptationState = MEMORY
) -> Iterator[RestServer]:
    """A server at the time ``NOW`` with the composition ``traffic`` and what was decided on it.

    Its loop is shown as enabled, and makes no decisions of its own.
    """
    world = World()
    with rest_server(
        directory,
        inventory(),
        tokens,
        world=world,
        registry=kinds(world),
        inputs=Profiler(),
        clock=lambda: NOW,
    ) as rest:
        rest.services.adaptation.period = 60.0
        applied = Client(rest.url, "write").apply(AUTO.encode(), "traffic", wait=60)
        assert applied["state"] == "succeeded"
        with rest.coordinator.store.transaction() as transaction:
            transaction.put_adaptation("traffic", memory)
        yield rest
