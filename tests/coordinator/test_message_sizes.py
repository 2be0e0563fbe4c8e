"""A plan warns of messages that are larger than the broker that they are written to accepts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator import Services, build
from speck.coordinator.planning.message_sizes import size_notes
from speck.core.job import Job
from speck.core.placement import Expects
from speck.core.plan import Keep, Plan, Start, Stop
from speck.core.settings import Settings
from speck.placement.profile import Known, Value
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

SINK = "tcp://small:1883"
LARGE = Expects(bytes=90_000)


def job(**fields: object) -> Job:
    return replace(make_job("pictures", sink_broker=SINK), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "limit", "fields", "expected"),
    [
        (Value(90_000, Known.DECLARED), 20_000, {}, "90000 bytes (declared in expects)"),
        (Value(90_000, Known.MEASURED), 20_000, {}, "90000 bytes (measured)"),
        (Value(90_000, Known.DECLARED), 20_000, {}, "up to 20000 bytes: the job fails on such a message"),
        (Value(90_000, Known.DECLARED), 20_000, {"on_error": "skip"}, "such messages are left out"),
        (
            Value(90_000, Known.DECLARED),
            20_000,
            {"on_error": "park", "park_topic": "parked"},
            "such messages are parked at 'parked'",
        ),
        (Value(20_000, Known.DECLARED), 20_000, {}, None),
        (Value(90_000, Known.DECLARED), None, {}, None),
        (None, 20_000, {}, None),
    ],
)
def test_notes(size: Value | None, limit: int | None, fields: dict[str, str], expected: str | None) -> None:
    plan = Plan("c", 1, (Start(job(**fields), "new"),))
    limits = {} if limit is None else {SINK: limit}
    notes = size_notes(plan, limits, {} if size is None else {"pictures": size})
    assert (expected in notes["pictures"]) if expected else not notes


def test_jobs_that_a_plan_does_not_start_have_none() -> None:
    sizes = {"pictures": Value(90_000, Known.DECLARED)}
    for action in (Keep(job(), ""), Stop(job(), "")):
        assert size_notes(Plan("c", 1, (action,)), {SINK: 20_000}, sizes) == {}


@pytest.fixture(name="services")
def services_fixture(tmp_path: Path, world: World) -> Iterator[Services]:
    settings = Settings(roots=(write_code(tmp_path),), period=0)
    with Store(tmp_path / "store") as store:
        services = build(store, double_kinds(world), settings=settings)
        services.coordinator.start()
        yield services
        services.coordinator.close()


def test_a_plan_has_them_and_asks_no_broker_that_it_does_not_reach_anyway(
    services: Services, world: World
) -> None:
    world.broker(SINK).packet_bytes = 20_000
    plan = user.plan(services.coordinator, composition(job(expects=LARGE)))
    assert "accepts packets of up to 20000 bytes" in plan.consequences["pictures"]
    asked = [call for call in world.calls if call[0] == "packet_bytes"]
    assert {address for _, address, _ in asked} == {SINK, job().source_broker}
    assert "pictures" not in user.plan(services.coordinator, composition(job())).consequences
    operation, _ = user.apply(services.coordinator, composition(job()))
    assert operation.wait(30)
    world.calls.clear()
    unchanged = user.plan(services.coordinator, composition(job(expects=LARGE)))
    assert unchanged.consequences == {}
    assert [call for call in world.calls if call[0] == "packet_bytes"] == []


def test_a_broker_that_does_not_answer_is_named_and_nothing_else(services: Services, world: World) -> None:
    world.broker(SINK).packet_bytes = 20_000
    world.down(SINK)
    plan = user.plan(services.coordinator, composition(job(expects=LARGE)))
    assert [each.address for each in plan.unreachable] == [SINK]
    assert plan.consequences == {}
