"""The jobs that one ``for_each`` made, drawn as one at all of its sites."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from speck.core.graph import Endpoint, sinks_of, source_of
from speck.core.job import Job

_NAMED = 4  # sites that are named before the others are counted


def folded(jobs: Iterable[Job]) -> list[Job]:
    """The jobs, one in the place of all those of a template; it has their sites for its engine's address.

    It is a job at a site that most templates have, so that it reads and writes what its neighbours do.  A
    topic that differs from job to job has ``*`` where it does.
    """
    by_template: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_template[job.template or job.job_name].append(job)
    many = {name: members for name, members in by_template.items() if len(members) > 1}
    common = Counter(site for members in many.values() for site in {each.site for each in members})
    chosen = {name: max(members, key=lambda each: common[each.site]) for name, members in many.items()}
    topics = _patterns(many.values())
    return [
        _renamed(_at_all(name, chosen[name], members) if name in many else members[0], topics)
        for name, members in by_template.items()
    ]


def _at_all(template: str, job: Job, members: Sequence[Job]) -> Job:
    sites = sorted({each.site or each.spe_address for each in members})
    more = len(sites) - _NAMED
    names = ", ".join(sites[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return replace(job, job_name=template, spe_address=names, site=None)


def _patterns(groups: Iterable[Sequence[Job]]) -> dict[Endpoint, str]:
    """The pattern of each topic that differs within a group."""
    found: dict[Endpoint, str] = {}
    for members in groups:
        ends = [{source_of(each) for each in members}, {end for each in members for end in sinks_of(each)}]
        for endpoints in ends:
            topics = sorted({each.topic for each in endpoints})
            if len(topics) > 1:
                pattern = _pattern(topics)
                found |= dict.fromkeys(endpoints, pattern)
    return found


def _pattern(topics: Sequence[str]) -> str:
    start = _common_start(topics)
    end = _common_start([each[len(start) :][::-1] for each in topics])[::-1]
    return f"{start}*{end}"


def _common_start(texts: Sequence[str]) -> str:
    columns = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in columns)


def _renamed(job: Job, topics: Mapping[Endpoint, str]) -> Job:
    sink = Endpoint(job.sink_broker, job.sink_topic)
    return replace(
        job,
        source_topic=topics.get(source_of(job), job.source_topic),
        sink_topic=topics.get(sink, job.sink_topic),
    )
