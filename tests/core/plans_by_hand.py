"""Jobs in a chain, and plans from some running jobs to others, for tests of the order of a plan."""

from __future__ import annotations

from dataclasses import replace

from speck.core.job import Job
from speck.core.plan import Deployed, Plan, make_plan
from speck.core.runtime import JobState, JobStatus
from testbed.benches.jobs_by_hand import chain, make_job

B1, B2 = "tcp://b1:1883", "tcp://b2:1883"
A, B, C = chain("a", "b", "c")
A_ELSEWHERE, B_ELSEWHERE = replace(A, sink_topic="x1"), replace(B, source_topic="x1")
PARKS, READS_PARKED = make_job("a", "t0", "t1", park_topic="bad"), make_job("b", "bad", "repaired")
REPAIRS = replace(READS_PARKED, sink_topic="t0")
PARKS_ELSEWHERE, READS_ELSEWHERE = (
    replace(PARKS, park_topic="x/bad"),
    replace(READS_PARKED, source_topic="x/bad"),
)


def planned(former: list[Job], desired: list[Job], *dead: str) -> Plan:
    """The plan from running jobs to others; ``dead`` are the names of those that have failed since."""
    stored = {job.job_name: Deployed(job) for job in former}
    statuses = {name: JobStatus(JobState.FAILED, observed_at=0.0) for name in dead}
    return make_plan("traffic", 1, {job.job_name: job for job in desired}, stored, statuses)
