"""Properties of engines and brokers that both simulators take as given, with their sources."""

from __future__ import annotations

from speck.placement.problem import Problem

# benchmarks.hop, Flink at 1,000 messages/s: added latency p50 1.6 ms and p99 3.2 ms, as a uniform delay has.
FLINK_DELAY = 1.6e-3  # s, mean
# Pacing.java: the time to gather rows after a batch, as a share of that batch, and its bound.
LINGER_RATIO = 0.5
LINGER_MOST = 3.0  # s
# RetransmissionBuffer and the brokers' Receive Maximum: messages in flight from a process to a broker.
WINDOW = 1000
# binders/flink/submission/job_config.py: a session's messages are acknowledged at checkpoints.
SESSION_WINDOW = 65_535
CHECKPOINT_PERIOD = 3.0  # s
# benchmarks.promises moves: gaps of a move, s, by engine; that of a reader whose topic is moved is longer.
GAP_FLINK = 0.3
GAP_SPARK = 1.1
GAP_REWIRED = 2.5


def on_wire(problem: Problem, channel: int, *, written: bool) -> float:
    """The bytes of a channel's message between sites, with headers, a job's stamp and acknowledgement."""
    stamp = problem.stamp if problem.writers[channel] else 0.0
    answer = problem.acknowledgement if written else 0.0
    return problem.channels[channel].size + problem.overhead + stamp + answer
