"""The block ``key_split`` of a job: from its valid fields to a split, and from there to the jobs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from speck.core.job import Job
from speck.core.split import (
    DEFAULT_AT_SITES,
    DEFAULT_IN_ONE_JOB,
    METRICS_SLIDE_US,
    METRICS_WINDOW_US,
    MOST_NAME,
    MOST_SLIDES,
    PARTITIONERS,
    POLICIES,
    Option,
    Place,
    Split,
    expand,
    part_names,
)
from speck.core.suggestions import did_you_mean
from speck.core.topic import OWN_TOPICS
from speck.errors import Fault
from speck.schema.fault_report import FaultReport
from speck.schema.places import Steps
from speck.schema.resolver import Resolver
from speck.schema.yaml.lines import line_of

BLOCK = "key_split"
MOST_DAYS = 366  # of a window
MOST_METRICS_SLIDES = 360  # of a metrics window
# Each combiner sends a report in each slide.
LEAST_METRICS_SLIDE_US = 1_000_000
ENGINE = "spark"  # the engine of all parts
Block = Mapping[str, Any]


def split_jobs(job: Job | None, fields: Block, resolver: Resolver, report: FaultReport) -> tuple[Job, ...]:
    """The jobs of one entry of a composition: the job itself, or those of its split; none with a fault.

    ``job`` is the resolved job, ``None`` if that has a fault; those of the split are reported all the same.
    """
    if report.data.get(BLOCK) is None:
        return () if job is None else (job,)
    split = _SplitReader(fields, resolver, report).split()
    return () if job is None or split is None else expand(job, split)


def part_jobs(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the jobs that an entry of a composition stands for, as far as it is readable."""
    name, block = entry.get("job_name"), entry.get(BLOCK)
    if not isinstance(name, str):
        return ()
    combiners = block.get("combiners") if isinstance(block, Mapping) else None
    return part_names(name, len(combiners)) if isinstance(combiners, list) else (name,)


def part_name_faults(entries: Iterable[Any]) -> Iterator[Fault]:
    """A fault for each job with the name of a part of another one's split."""
    named = [each for each in entries if isinstance(each, Mapping) and isinstance(each.get("job_name"), str)]
    parts = {part: each["job_name"] for each in named for part in part_jobs(each) if part != each["job_name"]}
    for entry in named:
        name = entry["job_name"]
        if (split := parts.get(name)) is not None:
            message = (
                f"job_name {name!r} is the name of a part of the split {split!r} (expected another name: "
                "a split names its own jobs)"
            )
            line = line_of(entry, "job_name")
            yield Fault(message, job=name, field="job_name", value=name, line=line)


class _SplitReader:
    """Checks one block against the sites, the code and the rest of its job."""

    def __init__(self, fields: Block, resolver: Resolver, report: FaultReport) -> None:
        self._fields = fields
        self._block: Block = fields.get(BLOCK, {})
        self._resolver = resolver
        self._report = report
        given = report.data[BLOCK]
        self._given: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        self._at_sites = isinstance(self._given.get("combiners"), list)

    def split(self) -> Split | None:
        """The split; ``None`` if the job has a fault."""
        self._check_job()
        window, slide, lateness = self._times()
        partitioner = self._partitioner()
        options = self._options(partitioner)
        measured = self._measured(partitioner)
        policy, policy_data = self._policy(partitioner)
        metrics = self._metrics()
        combiners, reducer = self._combiners(), self._reducer()
        if not self._report.sound or combiners is None:
            return None
        return Split(
            combiners=combiners,
            partitioner=partitioner,
            window_us=window,
            slide_us=slide,
            lateness_us=lateness,
            options=options,
            reducer=reducer,
            measured=measured,
            metrics_window_us=metrics[0],
            metrics_slide_us=metrics[1],
            seed=self._block.get("seed"),
            policy=policy,
            policy_data=policy_data,
        )

    def _add(self, path: str | Steps, predicate: str, *, shown: str | None = None) -> None:
        steps = (path,) if isinstance(path, str) else path
        self._report.add((BLOCK, *steps), predicate, shown=shown)

    def _missing(self, name: str, expected: str) -> None:
        if isinstance(self._report.data[BLOCK], Mapping) and self._given.get(name) is None:
            self._add(name, f"is missing (expected {expected})", shown="")

    # --- the job

    def _check_job(self) -> None:
        self._check_source()
        if self._fields.get("on_error", "fail") != "fail":
            right = "expected fail: rows without a key or a time are dropped"
            self._report.add("on_error", f"does not fit {BLOCK} ({right})")
        if self._fields.get("retain", False):
            right = "expected false: the parts of a split write frames to each other"
            self._report.add("retain", f"does not fit {BLOCK} ({right})")
        if self._fields.get("output_mode") is not None:
            right = "expected none: the parts of a split append"
            self._report.add("output_mode", f"does not fit {BLOCK} ({right})")
        if not self._at_sites:
            return
        name = str(self._fields.get("job_name", ""))
        if len(name) > MOST_NAME:
            right = f"expected at most {MOST_NAME} characters: the names of its jobs are longer"
            self._report.add("job_name", f"is too long for combiners at sites ({right})")
        for field in ("sites", "with", "apart", "parallelism"):
            if self._report.data.get(field) is not None:
                self._report.add(field, f"does not fit combiners at sites ({_IN_PLACE_OF[field]})")
        if self._fields.get("site") == "any":
            self._report.add("site", f"does not fit combiners at sites ({_IN_PLACE_OF['sites']})")

    def _check_source(self) -> None:
        topic = str(self._fields.get("source_topic", ""))
        if topic.startswith(OWN_TOPICS):
            right = "expected a topic with rows: this one has SpecK's own messages"
            self._report.add("source_topic", f"does not fit {BLOCK} ({right})")

    # --- times

    def _times(self) -> tuple[int, int, int]:
        """Window, slide and lateness, in microseconds; 0 for a time with a fault."""
        self._missing("window", "the length of the windows, for example 5 minutes")
        window = self._microseconds("window")
        slide = self._microseconds("slide") if self._given.get("slide") is not None else window
        if window and slide:
            self._check_slides(window, slide)
        return window, slide, self._microseconds("lateness")

    def _check_slides(self, window: int, slide: int) -> None:
        if window % slide:
            right = f"expected a multiple of the slide {self._given['slide']!r}"
            self._add("window", f"is not a whole number of slides ({right})")
        elif window // slide > MOST_SLIDES:
            self._add("window", f"has {window // slide:,} slides (expected at most {MOST_SLIDES:,})")

    def _microseconds(self, *path: str) -> int:
        found: Any = self._block
        for step in path:
            found = found.get(step, {})
        if not isinstance(found, Fraction):
            return 0
        time = found * 1_000_000
        if found > MOST_DAYS * 86_400:
            self._add(path, f"is too long (expected at most {MOST_DAYS} days)")
        elif time.denominator != 1:
            self._add(path, "is not a whole number of microseconds")
        else:
            return int(time)
        return 0

    def _metrics(self) -> tuple[int, int]:
        """Window and slide of the metrics, in microseconds."""
        given = self._given.get("metrics")
        window = self._microseconds("metrics", "window") or METRICS_WINDOW_US
        slide = self._microseconds("metrics", "slide") or METRICS_SLIDE_US
        named = given if isinstance(given, Mapping) else {}
        at = ("metrics", "slide" if "slide" in named else "window")
        if slide < LEAST_METRICS_SLIDE_US:
            self._add(("metrics", "slide"), "is too short (expected at least 1 second)")
        elif window % slide:
            self._add(at, f"does not fit (expected a window of whole slides: {_times_of(window, slide)})")
        elif window // slide > MOST_METRICS_SLIDES:
            self._add(at, f"does not fit (expected at most {MOST_METRICS_SLIDES} slides a window)")
        return window, slide

    # --- the partitioner

    def _partitioner(self) -> str:
        default = DEFAULT_AT_SITES if self._at_sites else DEFAULT_IN_ONE_JOB
        name = str(self._block.get("partitioner", default))
        if PARTITIONERS[name].learns and isinstance(self._given.get("combiners"), int):
            others = ", ".join(each for each, kind in PARTITIONERS.items() if not kind.learns)
            right = f"expected combiners as sites, or one of {others}"
            self._add("partitioner", f"learns across batches ({right})")
        return name

    def _options(self, partitioner: str) -> dict[str, float]:
        known = PARTITIONERS[partitioner].options
        given: Mapping[str, Any] = self._block.get("options", {})
        valid = self._given.get("partitioner") is None or "partitioner" in self._block
        for name, value in given.items() if valid else ():
            self._check_option(partitioner, name, value, known)
        return {
            name: int(value) if known[name].whole else float(value)
            for name, value in given.items()
            if name in known
        }

    def _check_option(self, partitioner: str, name: str, value: float, known: Mapping[str, Option]) -> None:
        path = ("options", name)
        if (option := known.get(name)) is None:
            right = did_you_mean(name, known, f"it has {', '.join(known) or 'none'}")
            self._add(path, f"is not an option of partitioner {partitioner!r} ({right})")
        elif option.whole and value != int(value):
            self._add(path, f"is not a whole number (expected one from {_bounds(option)})")
        elif not option.low <= value <= option.high:
            self._add(path, f"is out of range (expected a number from {_bounds(option)})")
        elif name == "cap" and value == 1:
            self._add(path, "is out of range (expected 0 for all workers, or at least 2)")

    def _measured(self, partitioner: str) -> bool:
        measured = bool(self._block.get("weights") == "measured")
        if measured and isinstance(self._given.get("combiners"), int):
            self._add("weights", "does not fit one job (expected fixed, or combiners as sites)")
        elif measured and not PARTITIONERS[partitioner].weighs:
            weighing = " or ".join(name for name, kind in PARTITIONERS.items() if kind.weighs)
            self._add("weights", f"does not fit partitioner {partitioner!r} (expected fixed, or {weighing})")
        return measured

    def _policy(self, partitioner: str) -> tuple[str, str]:
        """The policy by name or path, and the content of its file as Base64; both empty without one."""
        policy = str(self._block.get("policy", ""))
        if not policy:
            return "", ""
        if not PARTITIONERS[partitioner].policy:
            taking = " or ".join(name for name, kind in PARTITIONERS.items() if kind.policy)
            self._add("policy", f"does not fit partitioner {partitioner!r} (expected partitioner: {taking})")
        elif policy not in POLICIES:
            return policy, self._policy_file(policy)
        return policy, ""

    def _policy_file(self, policy: str) -> str:
        data, fault = self._resolver.code.policy(policy, ENGINE)
        if fault:
            right = did_you_mean(policy, POLICIES, f"expected a file, or {', '.join(POLICIES)}")
            self._add("policy", f"{fault} ({right})")
        return base64.b64encode(data).decode()

    # --- the places

    def _combiners(self) -> int | tuple[Place, ...] | None:
        self._missing("combiners", "a number for one Spark job, or a list of sites")
        combiners = self._block.get("combiners")
        if combiners is None or isinstance(combiners, int):
            return combiners
        places = tuple(self._place(("combiners", index), each) for index, each in enumerate(combiners))
        if not any(each.weight for each in places):
            self._add("combiners", "have the weight 0 (expected one above 0)", shown="")
        return places

    def _reducer(self) -> Place:
        given = self._block.get("reducer")
        if given is None:
            return Place()
        if isinstance(self._given.get("combiners"), int):
            self._add("reducer", "does not fit one job (expected combiners as sites)")
        if {"site", "spe_address"} & given.keys():
            return self._place(("reducer",), given)
        return self._sized(("reducer",), given, "", None)

    def _place(self, path: Steps, given: Block) -> Place:
        address, site = self._resolver.places.engine_at(given, (BLOCK, *path), ENGINE, self._report)
        return self._sized(path, given, address, site)

    def _sized(self, path: Steps, given: Block, address: str, site: str | None) -> Place:
        arguments = given.get("arguments", {})
        written = self._report.value((BLOCK, *path, "arguments"))
        for fault in self._resolver.code.added_argument_faults(self._fields, ENGINE, arguments, written):
            self._add((*path, "arguments"), f"do not fit: {fault}", shown="")
        return Place(
            spe_address=address,
            site=site,
            weight=given.get("weight", 1.0),
            parallelism=given.get("parallelism"),
            arguments=arguments,
        )


_IN_PLACE_OF = {
    "sites": "expected a site for the job: its partitioner runs there",
    "with": "expected the combiners' sites alone",
    "apart": "expected the combiners' sites alone",
    "parallelism": "expected it in the entries of combiners, and in reducer",
}


def _times_of(window_us: int, slide_us: int) -> str:
    return f"{window_us / 1e6:g} s is not a multiple of {slide_us / 1e6:g} s"


def _bounds(option: Option) -> str:
    return f"{option.low:g} to {option.high:g}"
