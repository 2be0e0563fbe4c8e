"""A composition that filters, multiplies, joins and counts on two kinds of engines, and the account of it.

::

    left  (Spark: in/1) ─┐              ┌─> expand-1 (Flink) ── mid/2, edge ──> count-1 (Spark) ─> out/1
                         ├─ mid/1, site ┤
    right (Spark: in/2) ─┘              └─> expand-2 (Spark) ── mid/3, site ──> count-2 (Flink) ─> out/2

Topics ``in`` and ``out`` are at the broker ``edge``, which no fault touches; ``site`` is the broker beside
the Flink cluster.  Inputs are ``NAME-NUMBER``.  An expanding job drops each fifth number, and writes one or
two outputs for each other, ``NAME-NUMBER.INDEX.FORM``: how many, and the form, depend on the version of the
job.  The last jobs count by text, so a lost output has no count, and a doubled one a count above 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from testbed.faults.rig import Account

BRANCHES = ("1", "2")

_DROPPED = 5

Counts = Mapping[str, int]  # of the outputs of a branch, by text


@dataclass(frozen=True)
class ExpandForm:
    """A version of the expanding jobs: its mark, and the divisor of the numbers that have two outputs.

    From the number ``dies`` on it fails.
    """

    mark: str
    twice: int
    dies: int | None = None

    def outputs(self, number: int) -> int:
        """The number of outputs of an input."""
        return 0 if number % _DROPPED == _DROPPED - 1 else 2 if number % self.twice == 0 else 1

    def arguments(self) -> dict[str, Any]:
        """The arguments of a job."""
        return {"form": self.mark, "twice": self.twice} | ({} if self.dies is None else {"dies": self.dies})


A, B = ExpandForm("a", 3), ExpandForm("b", 2)


@dataclass(frozen=True)
class Ends:
    """The addresses at which a composition's jobs run, and of its two brokers."""

    spark: str
    flink: str
    edge: str
    site: str


@dataclass(frozen=True)
class Mixed:
    """One version of the composition; ``mark`` is in all of its names, ``wire`` in those of two topics."""

    mark: str
    ends: Ends
    form: ExpandForm = A
    wire: str = ""
    parallelism: int = 1
    trigger: str = "200 milliseconds"
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # further fields by job

    @property
    def name(self) -> str:
        """The composition's name."""
        return f"mixed-{self.mark}"

    def topic(self, name: str) -> str:
        """A topic of this composition."""
        return f"{self.mark}/{name}"

    def text(self) -> bytes:
        """The composition as a file."""
        edge, site = self.ends.edge, self.ends.site
        first, third = f"mid/1{self.wire}", f"mid/3{self.wire}"
        form, shared = self.form.arguments(), {"parallelism": self.parallelism}
        spark = {"job_path": "spark_jobs.py", "spe_address": self.ends.spark, "trigger": self.trigger}
        flink = {"spe_address": self.ends.flink}
        counting = {
            "job_path": "speck-flink-jobs.jar",
            "entry_class": "io.speck.flink.jobs.CountByKey",
            "arguments": {"field": 1},
        }
        expanding = {"job_path": "expand.jar", "entry_class": "expanding.Expand", "arguments": dict(form)}
        jobs = [
            self._job("left", (edge, "in/1"), (site, first), spark, {"entry_class": "forward"}),
            self._job("right", (edge, "in/2"), (site, first), spark, {"entry_class": "forward"}),
            self._job("expand-1", (site, first), (edge, "mid/2"), flink, expanding, shared),
            self._job(
                "expand-2",
                (site, first),
                (site, third),
                spark,
                {"entry_class": "expand", "arguments": dict(form)},
            ),
            self._job("count-1", (edge, "mid/2"), (edge, "out/1"), spark, {"entry_class": "counted"}),
            self._job("count-2", (site, third), (edge, "out/2"), flink, counting, shared),
        ]
        return yaml.safe_dump({"name": self.name, "jobs": jobs}).encode()

    def _job(
        self, name: str, source: tuple[str, str], sink: tuple[str, str], *fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        data: dict[str, Any] = {
            "job_name": f"{name}-{self.mark}",
            "source_broker": source[0],
            "source_topic": self.topic(source[1]),
            "sink_broker": sink[0],
            "sink_topic": self.topic(sink[1]),
        }
        for each in (*fields, self.extra.get(name, {})):
            data |= each
        return data


def account(sent: Iterable[str], counts: Mapping[str, Counts], forms: Sequence[ExpandForm]) -> Account:
    """Compare the outputs of each branch with those of the inputs ``sent`` under one of the ``forms``.

    Where all outputs of an input are of one form, just its outputs must be there; a form that dies may have
    written a part of them.  Where they are of several, or there are none, those that all forms have.
    """
    times = Counter(sent)
    lost = doubled = mixed = 0
    for found in counts.values():
        outputs = _by_input(found)
        for text, often in times.items():
            there = outputs.get(text, {})
            expected = _expected_outputs(text, there, forms)
            by_index = Counter[int]()
            for (index, _), count in there.items():
                by_index[index] += count
            lost += sum(max(0, often - by_index[index]) for index in range(expected))
            doubled += sum(max(0, count - often) for count in by_index.values())
            mixed += often == 1 and not _is_whole(text, there, forms)
    return Account(times.total(), lost, doubled, mixed)


def _expected_outputs(text: str, there: Iterable[tuple[int, str]], forms: Sequence[ExpandForm]) -> int:
    """The number of outputs that an input must have at least."""
    marks = {mark for _, mark in there}
    number = int(text.rpartition("-")[2])
    own = [each for each in forms if {each.mark} == marks and each.dies is None]
    return min(each.outputs(number) for each in own or forms)


def _is_whole(text: str, there: Iterable[tuple[int, str]], forms: Sequence[ExpandForm]) -> bool:
    """True if an input has just the outputs of one form."""
    number = int(text.rpartition("-")[2])
    found = set(there)
    return any(found == {(index, each.mark) for index in range(each.outputs(number))} for each in forms)


def _by_input(found: Counts) -> Mapping[str, Mapping[tuple[int, str], int]]:
    """The counts of outputs by input, and by index and form."""
    outputs: defaultdict[str, dict[tuple[int, str], int]] = defaultdict(dict)
    for output, count in found.items():
        text, index, mark = output.rsplit(".", 2)
        outputs[text][int(index), mark] = count
    return outputs
