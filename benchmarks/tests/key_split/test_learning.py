"""Training of policies: the format of its data, and, where JAX is, the losses and a small training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.key_split import train
from benchmarks.key_split.learn.simulator import PROFILES, Episode, Steered
from benchmarks.key_split.learn.steps import FIELDS, by_workers, inputs, read, simulated, write
from jars_and_apps.key_split.baselines.policy import FEATURES, Policy, by_mean, features, packed
from speck.core.split.metrics import transition

if TYPE_CHECKING:
    from benchmarks.key_split.learn.agent import Agent


def step(workers: int = 3, **changes: Any) -> dict[str, Any]:
    even = [1.0] * workers
    found = {"obs": even + even, "action": [1 / workers] * workers, "reward": 3.0, "next_obs": even + even}
    return found | changes


# --- data


def test_steps_of_the_simulator_are_the_same_after_their_file(tmp_path: Path) -> None:
    made = list(simulated(1.5, (4,), 1, seed=1, length=4))
    assert len(made) == 3 * 4 * len(PROFILES)
    assert write(made, tmp_path / "steps.jsonl") == len(made)
    assert list(read(tmp_path / "steps.jsonl")) == made
    for each in made:
        assert tuple(each) == FIELDS
        assert sum(each["action"]) == pytest.approx(1, abs=1e-5)


def test_steps_of_a_real_run_are_read_with_those_of_the_simulator(tmp_path: Path) -> None:
    """Windows as ``speck split record`` takes them from the server: one combiner has not reported."""
    window = {"end": 10.0, "seconds": 60.0, "weights": [0.5, 0.3, 0.2]}
    workers = [{"rows": 50, "busy": 2.0, "wall": 3.0}, {"rows": 30, "busy": 1.0, "wall": 3.0}, None]
    recorded = transition(window | {"workers": workers}, window | {"workers": workers})
    write([recorded, *simulated(1.5, (3, 4), 1, seed=1, length=2)], tmp_path / "steps.jsonl")
    found = by_workers(read(tmp_path / "steps.jsonl"))
    assert list(found) == [3, 4]
    assert found[3].features.shape == (1 + 6 * len(PROFILES), 3, FEATURES)
    np.testing.assert_allclose(np.exp(found[3].shares[0]) / 3, [0.5, 0.3, 0.2], rtol=1e-6)


def test_the_network_is_given_the_same_in_training_and_at_the_site() -> None:
    rows, busy = np.array([700.0, 100, 200, 200]), np.array([3.0, 1, 0.5, 2])
    works = [{"rows": int(r), "busy": b, "wall": b} for r, b in zip(rows, busy, strict=True)]
    window = {"end": 1.0, "seconds": 60.0, "workers": works, "weights": []}
    observed = inputs(transition(window, window)["obs"])
    np.testing.assert_allclose(observed, features(by_mean(rows), by_mean(busy)))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "Expecting property name"),
        ("[]", "no step"),
        (json.dumps({name: 1 for name in FIELDS if name != "obs"}), "no step .expected an object with obs"),
        (json.dumps(step(obs=[1.0])), r"\(expected n, 2n, 2n\)"),
        (json.dumps(step(action=[])), r"\(expected n, 2n, 2n\)"),
        (json.dumps(step(reward="much")), "could not convert"),
        (json.dumps(step(reward=float("nan"))), "a number is not finite"),
    ],
)
def test_a_line_that_is_no_step_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(json.dumps(step()) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=f"steps.jsonl, line 2: .*{fault}"):
        list(read(path))


def test_shares_that_are_set_from_outside_are_recorded_and_obeyed() -> None:
    game = Steered(Episode(4, 1.5, "equal", 1))
    game.aim(np.array([0.1, 0.3, 0.3, 0.3]))
    window = [game.step() for _ in range(2)][-1]
    rows = np.array([each["rows"] for each in window["workers"]])
    np.testing.assert_allclose(rows / rows.sum(), window["weights"], atol=0.05)


# --- training


def test_training_without_its_libraries_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "benchmarks.key_split.learn.training", None)
    assert train.main([]) == 2
    assert "the extra learn has jax and optax" in capsys.readouterr().err


@pytest.mark.slow("20 s of a processor: JAX compiles each step of the training")
def test_a_small_training_writes_a_policy_that_answers_as_the_network(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="the extra learn is not installed (pip install 'speck[learn]')")
    steps = tmp_path / "steps.jsonl"
    write(simulated(1.5, (4,), 1, seed=1, length=10), steps)
    counts = ["--cloning", "150", "--offline", "20", "--online", "10"]
    given = ["--exponent", "1.5", "--data", str(steps), "--out", str(tmp_path)]
    assert train.main(counts + given) == 0
    found = Policy.of_bytes((tmp_path / "zipf-1.5.npz").read_bytes())
    example = found.manifest["example"]
    shares = found.shares(np.array(example["rows"]), np.array(example["busy"]))
    np.testing.assert_allclose(shares, example["shares"], atol=1e-5)
    assert found.manifest["data"] == {"steps": 150, "files": ["steps.jsonl"]}
    assert found.manifest["rewards"].keys() == {"cloning", "cql", "sac"}
    assert found.manifest["rewards"][found.manifest["chosen"]] == max(found.manifest["rewards"].values())
    assert train.main([*counts, *given[:-1], str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "zipf-1.5.npz").read_bytes() == (tmp_path / "zipf-1.5.npz").read_bytes()


SPEEDS = ((1.0, 1.0), (1.0, 4.0), (4.0, 1.0), (1.0, 2.0), (2.0, 1.0))


def toy_window(shares: NDArray[np.float64], speeds: Sequence[float]) -> dict[str, Any]:
    """A window in which two workers have these shares of 1,000 rows; speeds in thousand rows/s."""
    works = [
        {"rows": 1000 * share, "busy": share / speed, "wall": 1.0}
        for share, speed in zip(shares.tolist(), speeds, strict=True)
    ]
    return {"end": 1.0, "seconds": 1.0, "weights": shares.tolist(), "workers": works}


def toy_share(policy: Policy, speeds: Sequence[float]) -> float:
    """The share of the ideal throughput that a policy comes to from even shares, in four windows."""
    window = toy_window(np.array([0.5, 0.5]), speeds)
    for _ in range(4):
        rows, busy = (np.array([each[name] for each in window["workers"]]) for name in ("rows", "busy"))
        window = toy_window(policy.shares(rows, busy), speeds)
    return 1 / sum(speeds) / max(float(each["busy"]) for each in window["workers"])


@pytest.mark.slow("20 s of a processor: JAX compiles each step of the training")
def test_a_toy_of_two_workers_is_learned_from_random_shares_alone() -> None:
    pytest.importorskip("jax", reason="the extra learn is not installed (pip install 'speck[learn]')")
    from benchmarks.key_split.learn.agent import Agent, Rates
    from benchmarks.key_split.learn.training import Memory

    random = np.random.default_rng(1)

    def drawn() -> NDArray[np.float64]:
        shares = np.exp(random.uniform(-1.2, 1.2, 2))
        return np.asarray(shares / shares.sum())

    agent = Agent(Rates(), 1)
    untrained = min(toy_share(policy_of(agent), speeds) for speeds in SPEEDS)
    recorded = [
        transition(toy_window(drawn(), speeds), toy_window(drawn(), speeds)) for speeds in SPEEDS * 300
    ]
    memory = Memory(by_workers(recorded), random)
    for _ in range(1000):
        agent.learn(memory.batch(2, 64), conservative=True)
    for speeds in SPEEDS * 40:
        before = toy_window(drawn(), speeds)
        shares = agent.act(inputs(transition(before, before)["obs"])[None].astype(np.float32))[0]
        memory.add(transition(before, toy_window(shares, speeds)))
        agent.learn(memory.batch(2, 64), conservative=False)
    assert untrained < 0.6
    assert min(toy_share(policy_of(agent), speeds) for speeds in SPEEDS) >= 0.95


def policy_of(agent: Agent) -> Policy:
    """The policy of an agent, as sites run it."""
    return Policy.of_bytes(packed({"name": "toy", "ranks": [1.0]}, agent.layers()))


@pytest.mark.slow("30 s of a processor: the losses at many points")
def test_the_slopes_of_the_losses_are_those_of_finite_differences() -> None:
    jax = pytest.importorskip("jax", reason="the extra learn is not installed (pip install 'speck[learn]')")
    from jax.test_util import check_grads

    from benchmarks.key_split.learn import losses, networks

    keys = jax.random.split(jax.random.key(1), 4)
    data = by_workers(simulated(1.5, (3,), 1, seed=1, length=2))[3]
    batch = losses.Batch(*(each[:4] for each in data))
    actor, critics = networks.actor(keys[0]), networks.critics(keys[1])
    of_critics = {
        "critic": lambda each: losses.critic_loss(each, batch, batch.rewards),
        "conservative": lambda each: losses.conservative_loss(each, actor, batch, keys[2]),
    }
    of_actor = {
        "cloning": lambda each: losses.cloning_loss(each, batch),
        "actor": lambda each: losses.actor_loss(each, critics, 0.1, batch, keys[3])[0],
    }
    with jax.enable_x64(True):
        for loss in of_critics.values():
            check_grads(loss, (critics,), order=1, modes=["rev"], atol=0.05, rtol=0.05)
        for loss in of_actor.values():
            check_grads(loss, (actor,), order=1, modes=["rev"], atol=0.05, rtol=0.05)
