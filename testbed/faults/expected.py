"""The deployment that a version of the composition requires, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from testbed.faults.compositions import JobForm
from testbed.faults.sites import Place
from testbed.faults.witness import BrokerState

_OWN = "speck/"  # topics of SpecK's own: notes, fences, markers
# What writers and readers leave for a broker that forgets, and the tombstones of deleted sessions in place of
# their fences; they go by themselves.
_PASSING = ("speck/sink/", "speck/again/", "speck/fence/")


def faults(places: Mapping[str, Place], jobs: Sequence[JobForm]) -> list[str]:
    """Faults at the engines; if there are none, at the brokers."""
    found = [fault for site, place in places.items() for fault in _engine_faults(site, place, jobs)]
    return found or list(_all_broker_faults(places, jobs))


def _engine_faults(site: str, place: Place, jobs: Sequence[JobForm]) -> Iterator[str]:
    running = place.engine.running()
    desired = Counter(job.name for job in jobs if job.site == site)
    found = Counter(each.name for each in running)
    if found != desired:
        yield f"engine {site} runs {dict(found)}, desired {dict(desired)}"
    elif not all(each.up for each in running):
        yield f"engine {site} has jobs on their way"
    elif files := place.engine.unused_files():
        yield f"engine {site} has files that nothing uses: {files}"


def _all_broker_faults(places: Mapping[str, Place], jobs: Sequence[JobForm]) -> Iterator[str]:
    for site, place in places.items():
        desired = {job.name: job.reads[1] for job in jobs if job.reads[0] == site}
        yield from _broker_faults(site, place.broker.read(), desired)


def _broker_faults(site: str, state: BrokerState, desired: Mapping[str, str]) -> Iterator[str]:
    ours = {
        name: tuple(topic for topic in topics if not topic.startswith(_OWN))
        for name, topics in state.sessions.items()
        if name.startswith("speck-")
    }
    sessions = {
        job: [
            name
            for name in ours
            if name == f"speck-{job}" or name.startswith((f"speck-{job}.", f"speck-{job}:"))
        ]
        for job in desired
    }
    for job, topic in desired.items():
        if [ours[name] for name in sessions[job]] != [(topic,)]:
            found = {name: ours[name] for name in sessions[job]}
            yield f"broker {site} has for {job} the sessions {found}, desired one of {topic}"
    known = {name for names in sessions.values() for name in names}
    if orphans := sorted(ours.keys() - known):
        yield f"broker {site} has orphaned sessions {orphans}"
    notes = {topic for topic in state.retained if topic.startswith(_OWN) and not topic.startswith(_PASSING)}
    if orphans := sorted(topic for topic in notes if topic.rpartition("/")[2] not in known):
        yield f"broker {site} has orphaned notes {orphans}"
