"""The coordinator killed by SIGKILL, and its answers lost, over real Flink clusters and brokers.

The points are the same in each run, and others with another ``SPECK_SEED``; ``SPECK_KILLS`` says how many of
each kind of change, ``SPECK_RANDOM_KILLS`` how many at random moments, ``SPECK_TROUBLES`` how
many changes are made over wires that misbehave.  All are taken by
``python -m benchmarks.promises kills``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from binders.flink.local.cluster import CONNECTOR, flink_home
from speck.errors import LocalError
from testbed.faults.compositions import FLINK
from testbed.faults.kills import PAIRS, Pair, at_random, at_some_points, effects, figures
from testbed.faults.lost import Wires, rounds
from testbed.faults.sites import Place, flink_places
from testbed.faults.trial import Trial
from testbed.servers.mosquitto import PROGRAM
from tests.support import trials

SEED = int(os.environ.get("SPECK_SEED", "1"))
KILLS = int(os.environ.get("SPECK_KILLS", "1"))
TROUBLES = int(os.environ.get("SPECK_TROUBLES", "1"))
HASTY = "testbed.faults.hasty"  # a start that is not answered is drawn every few days
RANDOM_KILLS = int(os.environ.get("SPECK_RANDOM_KILLS", "2"))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]


@pytest.fixture(name="places", scope="module")
def places_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Place]]:
    try:
        flink_home()
    except LocalError as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        yield flink_places(stack, tmp_path_factory.mktemp("kills"))


@pytest.fixture(name="trial", scope="module")
def trial_fixture(places: Mapping[str, Place], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One for all tests: each goes on from where the one before ended, which saves deploying it anew."""
    with Trial(places, FLINK, tmp_path_factory.mktemp("trial"), SEED, print) as trial:
        yield trial
        trial.come_to(None)


DEPLOYED, UPDATED, MOVED, REWIRED = PAIRS

# A move starts, stops and carries state; in memory, each kind of change is broken off.
AS_A_MOVE = trials.trial("[move, back], and tests/promises/test_standby.py")


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(DEPLOYED, id="deploy, delete", marks=AS_A_MOVE),
        pytest.param(UPDATED, id="update, back", marks=AS_A_MOVE),
        pytest.param(MOVED, id="move, back"),
        pytest.param(REWIRED, id="rewire, back", marks=AS_A_MOVE),
    ],
)
def test_killed_at_a_point_it_ends_in_what_was_asked_for(trial: Trial, pair: Pair) -> None:
    print(f"SPECK_SEED={SEED}")
    before = len(trial.outcomes)
    at_some_points(trial, [pair], KILLS)
    outcomes = trial.outcomes[before:]
    assert [each for each in outcomes if each.wrong] == []
    assert figures(outcomes)["kills"] > 0


def test_killed_at_random_moments_it_ends_in_what_was_asked_for(trial: Trial) -> None:
    print(f"SPECK_SEED={SEED}")
    before = len(trial.outcomes)
    at_random(trial, RANDOM_KILLS)
    assert [each for each in trial.outcomes[before:] if each.wrong] == []


def test_answers_lost_it_ends_in_what_was_asked_for(
    trial: Trial, places: Mapping[str, Place], tmp_path: Path
) -> None:
    """With drops, delays, cuts, doubled requests and garbled answers on all wires of the coordinator."""
    print(f"SPECK_SEED={SEED}")
    trial.come_to(None)
    wires = Wires(SEED, chance=0.1)
    with ExitStack() as stack:
        relayed = wires.before(stack, places)
        with Trial(relayed, FLINK, tmp_path / "trial", SEED, print, HASTY) as troubled:
            rounds(troubled, wires, TROUBLES)
            troubled.come_to(None)
    assert [each for each in troubled.outcomes if each.wrong] == []
    assert sum(wires.done().values()) > 0


def test_points_between_two_effects_count_once() -> None:
    names = ["before flink check", "within flink check", "before GET /overview", "before POST /jars/ID/run"]
    assert effects([*names, "after POST /jars/ID/run", "before store write", "after store write"]) == [
        2,
        4,
        6,
        7,
    ]
