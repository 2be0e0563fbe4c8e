"""``python -m benchmarks.key_split train``: trains the policies of saspartitioner, and writes their files.

For each Zipf exponent: steps of episodes in the simulator, or from files (``--data``, of ``speck split
record`` or of ``steps``); cloning of their actions, conservative Q-learning on them, then SAC in the
simulator.  ``python -m benchmarks.key_split steps -o FILE`` writes the simulator's steps to a file.
It needs JAX and Optax (the extra ``learn``), on one core of the processor.  The same command makes the same
files again, byte for byte, with the same releases of these and on the same kind of processor.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.key_split.learn import steps
from jars_and_apps.key_split.baselines.policy import by_mean, features, packed

if TYPE_CHECKING:
    from benchmarks.key_split.learn.agent import Agent

EXPONENTS = (1.5, 0.5, 1.0, 2.0)
SIZES = (8, 32)
POLICIES = Path(__file__).parents[2] / "jars_and_apps" / "key_split" / "baselines" / "policies"
RANKS, KEYS = 10, 10_000  # of the stream by which a policy is chosen
ONE_CORE = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def main(arguments: list[str]) -> int:
    """Train a policy for each exponent."""
    settings = _parser().parse_args(arguments)
    os.environ.setdefault("XLA_FLAGS", ONE_CORE)
    try:
        from benchmarks.key_split.learn.training import Schedule, train
    except ImportError as error:
        print(f"no training: {error} (the extra learn has jax and optax)", file=sys.stderr)
        return 2
    found = [step for path in settings.data for step in steps.read(path)]
    schedule = Schedule(settings.cloning, settings.offline, settings.online)
    for z in settings.exponent or EXPONENTS:
        began = time.process_time()
        data = found or list(steps.simulated(z, SIZES, settings.episodes, settings.seed))
        agent, rewards = train(data, z, schedule, settings.seed)
        manifest = _manifest(settings, z, len(data)) | {
            "rates": asdict(agent.rates),
            "rewards": rewards,
            "chosen": max(rewards, key=lambda phase: rewards[phase]),
            "example": _example(agent),
        }
        name = f"zipf-{z:g}"
        settings.out.mkdir(parents=True, exist_ok=True)
        (settings.out / f"{name}.npz").write_bytes(packed({"name": name, **manifest}, agent.layers()))
        took = time.process_time() - began
        print(f"{settings.out / name}.npz: {took:.0f} s of a processor", file=sys.stderr, flush=True)
    return 0


def write_steps(arguments: list[str]) -> int:
    """``python -m benchmarks.key_split steps``: write the steps of the simulator's episodes to a file."""
    parser = argparse.ArgumentParser(prog="benchmarks.key_split steps", description=write_steps.__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file, JSON lines")
    parser.add_argument("--exponent", type=float, default=1.5, help="of Zipf's law (default: 1.5)")
    parser.add_argument("--workers", type=int, nargs="+", default=SIZES, help="(default: 8 32)")
    parser.add_argument("--episodes", type=int, default=2, help="of each kind (default: 2)")
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args(arguments)
    found = steps.simulated(settings.exponent, settings.workers, settings.episodes, settings.seed)
    print(json.dumps({"steps": steps.write(found, settings.output), "file": str(settings.output)}))
    return 0


def zipf_ranks(z: float) -> list[float]:
    """The shares of the hottest keys of 10,000 by Zipf's law."""
    shares = np.arange(1, KEYS + 1) ** -float(z)
    found: list[float] = np.round(shares[:RANKS] / shares.sum(), 6).tolist()
    return found


def _example(agent: Agent) -> dict[str, list[float]]:
    """The answer of the network in JAX to a window of four workers, for the inference in numpy."""
    rows, busy = np.array([120.0, 80.0, 100.0, 40.0]), np.array([1.0, 2.5, 0.8, 0.4])
    inputs = features(by_mean(rows), by_mean(busy)).astype(np.float32)
    return {"rows": rows.tolist(), "busy": busy.tolist(), "shares": agent.expected(inputs)}


def _manifest(settings: argparse.Namespace, z: float, count: int) -> dict[str, Any]:
    files = [path.name for path in settings.data]
    behaviours = "dalton-offline, balanced with measured weights, random shares"
    return {
        "ranks": zipf_ranks(z),
        "seed": settings.seed,
        "data": {"steps": count, "files": files}
        if files
        else {"steps": count, "simulator": behaviours, "workers": list(SIZES), "exponent": z},
        "phases": {
            "cloning": settings.cloning,
            "cql": settings.offline,
            "sac": settings.online,
        },
        "command": shlex.join(["python", "-m", "benchmarks.key_split", "train", *_given(settings)]),
    }


def _given(settings: argparse.Namespace) -> list[str]:
    """The arguments that repeat the training, without paths of this machine."""
    given = ["--seed", settings.seed, "--episodes", settings.episodes, "--cloning", settings.cloning]
    given += ["--offline", settings.offline, "--online", settings.online]
    given += ["--data", *(path.name for path in settings.data)] if settings.data else []
    return [str(each) for each in given]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.key_split train", description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", default=[], help="files of steps, JSON lines")
    parser.add_argument("--out", type=Path, default=POLICIES, help="directory of the policies")
    parser.add_argument("--exponent", type=float, nargs="+", help="(default: 1.5 0.5 1 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=1, help="of each kind, for data (default: 1)")
    parser.add_argument("--cloning", type=int, default=500, help="steps of cloning (default: 500)")
    parser.add_argument("--offline", type=int, default=1_000, help="steps of CQL (default: 1000)")
    parser.add_argument("--online", type=int, default=1_000, help="steps of SAC (default: 1000)")
    return parser
