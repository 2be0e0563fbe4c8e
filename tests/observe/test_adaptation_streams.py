"""Random streams of metrics, with gaps, wrong values and restarts, never cause a step from stale figures."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from speck.core.adaptation import AdaptationState
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.profile import JobSample
from speck.core.runtime import Handle
from speck.errors import Unreachable
from speck.observe.measures import Measures
from speck.observe.pace import FRESH
from speck.observe.profile.estimates import LEAST_SAMPLES, LEAST_SPAN
from speck.placement.adaptation.decide import Step, decide
from speck.placement.adaptation.situation import Candidate, Situation
from speck.placement.profile import JobProfile
from testbed.benches.jobs_by_hand import make_job
from tests.support.properties import tries

STREAMS = 50  # of each of 200 examples
MOMENTS = 12
BEGIN = 1_000_000.0
ENGINE = "http://a:8081"
TEMPTING = Candidate(
    jobs=("j",),
    source="D",
    target="A",
    gain=0.9,
    objective=0.1,
    age_p95=0.1,
    multiplier=9.0,
    utilisation=0.1,
    pays_after=1.0,
)


@dataclass
class Stream:
    """A job's metrics; ``valid`` are the times of the good samples of its present copy, with its counts."""

    measures: Measures
    job: Job
    random: random.Random
    now: float = BEGIN
    copy: int = 0
    count: int = 0
    valid: list[float] = field(default_factory=list)
    silent: bool = False

    def advance(self) -> None:
        """Let 10 s pass, in which the job is asked or not, and answers rightly or not."""
        self.now += 10.0
        self.count += self.random.randrange(50, 150) * 10
        event = self.random.choices(("good", "gap", "silence", "restart", "wrong"), (70, 12, 6, 6, 6))[0]
        getattr(self, event)()

    def good(self) -> None:
        self.silent = False
        self._take(self._sample())
        self.valid.append(self.now)

    def gap(self) -> None:
        """The engine is not asked."""

    def silence(self) -> None:
        self.silent = True
        self.measures.record(self.job, self._handle(), Unreachable("no answer", address=ENGINE))

    def restart(self) -> None:
        self.copy, self.count, self.valid = self.copy + 1, 0, []
        self.good()

    def wrong(self) -> None:
        """An answer with a count that cannot be."""
        self.silent = False
        odd = self.random.choice((-5, self.count * 5000 + 10**9))
        late = self.random.choice((math.nan, self.now + 10_000.0, -1.0))
        sample = self._sample()
        if self.random.random() < 0.5:
            self._take(replace(sample, messages_in=odd))
        else:
            self._take(replace(sample, observed=late))

    def _sample(self) -> JobSample:
        return JobSample(
            engine_id=str(self.copy),
            observed=self.now,
            messages_in=self.count,
            messages_out=self.count // 2,
            bytes_in=100 * self.count,
            bytes_out=50 * self.count,
        )

    def _take(self, sample: JobSample) -> None:
        self.measures.record(self.job, self._handle(), sample)

    def _handle(self) -> Handle:
        return Handle(ENGINE, str(self.copy), {})

    @property
    def is_fresh(self) -> bool:
        """True if the good samples of the last minute say the rate, as the documentation has it."""
        newest = self.valid[-1] if self.valid else -math.inf
        recent = [each for each in self.valid if each >= newest - FRESH]
        return (
            newest >= self.now - FRESH
            and len(recent) >= LEAST_SAMPLES
            and recent[-1] - recent[0] >= LEAST_SPAN
        )


class EmptyStore:
    """A store without profiles."""

    def job_profiles(self) -> dict[tuple[str, str], JobProfile]:
        return {}

    site_profiles = links = job_profiles


def measures() -> Measures:
    """Measures that nothing is stored of."""
    deployments = SimpleNamespace(store=EmptyStore())
    return Measures(deployments, None, Inventory(), lambda: BEGIN)  # type: ignore[arg-type]


def decisions(seed: int, length: int) -> Iterator[tuple[Stream, bool]]:
    """A stream after each of its moments, and true if the loop would take a step there."""
    stream = Stream(measures(), make_job("j", engine="flink", spe_address=ENGINE), random.Random(seed))
    stream.measures.clock = lambda: stream.now
    memory = AdaptationState()
    for _ in range(length):
        stream.advance()
        measure = stream.measures.jobs([stream.job])["j"]
        fresh = measure.fresh and not measure.error
        rate = measure.estimate.profile.rate_in
        seen = Situation(
            revision=1,
            objective=1.0,
            age_p95=0.2,
            gain=0.9,
            candidates=(TEMPTING,),
            rates={"j": math.nan if rate is None else rate.value},
            hold="" if fresh else "the rate is not of the last minute",
        )
        answer, memory = decide(replace(memory, steps=(), revision=1), seen, stream.now)
        yield stream, isinstance(answer, Step)


@pytest.mark.slow("3,000 streams of samples, each judged at every moment")
@given(st.integers(0, 2**40))
@tries(60, suppress_health_check=list(HealthCheck))
def test_no_step_from_stale_figures(first: int) -> None:
    taken = 0
    for seed in range(first, first + STREAMS):
        for stream, step in decisions(seed, MOMENTS):
            if step:
                taken += 1
                assert stream.is_fresh, (seed, stream)
                assert not stream.silent
    assert taken  # or the test shows nothing


def test_steps_from_fresh_figures() -> None:
    assert sum(step for seed in range(30) for _, step in decisions(seed, MOMENTS))
