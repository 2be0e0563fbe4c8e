"""A network over the graph of placed jobs, after Costream's: typed encoders, and messages along the plan.

1. Each job is encoded by its class, and each site, in 128 dimensions.
2. A site gets the sum of the codes of its jobs, and each job the state of its site.
3. From the sources to the sinks, a job gets the mean and the maximum of the states of its writers.
4. The age is the mean over the sinks of one for each, the rate the sum of a share of what each is offered.  A
   placement fails if a sink does, and is back-pressured if a job is.

R. Heinrich, C. Binnig, H. Kornmayer and M. Luthra, "Costream: Learned Cost Models for Operator Placement in
Edge-Cloud Environments", ICDE 2024.  The forward pass is written once, for numpy, which predicts, and for
torch, which trains (:mod:`speck_baselines.learned.network_training`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from speck_baselines.learned.graphs import CLASSES, JOB_WIDTH, SITE_WIDTH, Array, Batch, Indices
from speck_baselines.learned.targets import TARGETS

WIDTH = 128
# Weights by name: rows in, columns out; jobs have those of their class.
SHAPES: Mapping[str, tuple[int, ...]] = {
    "jobs": (len(CLASSES), JOB_WIDTH, WIDTH),
    "jobs_bias": (len(CLASSES), WIDTH),
    "sites": (SITE_WIDTH, WIDTH),
    "sites_bias": (WIDTH,),
    "on_site": (2 * WIDTH, WIDTH),
    "on_site_bias": (WIDTH,),
    "on_job": (2 * WIDTH, WIDTH),
    "on_job_bias": (WIDTH,),
    "flow": (3 * WIDTH, WIDTH),
    "flow_bias": (WIDTH,),
    "inner": (2 * WIDTH, WIDTH),
    "inner_bias": (WIDTH,),
    "heads": (WIDTH, len(TARGETS)),
    "heads_bias": (len(TARGETS),),
    "scale_jobs": (2, JOB_WIDTH),
    "scale_sites": (2, SITE_WIDTH),
}
FARTHEST = 4.0  # standard deviations from the mean of the training data, beyond which features are cut off
FLOOR = 1e-6  # the least share of the offered results that is predicted
_LN10 = math.log(10.0)

Weights = Mapping[str, Array]


class Operations(Protocol):
    """The operations that numpy and torch have under other names; ``module`` has the others."""

    @property
    def module(self) -> Any:
        """The library."""

    def array(self, values: Array) -> Any:
        """The array of numpy in the library's own form."""

    def sums(self, values: Any, groups: Indices, count: int) -> Any:
        """The sums of rows by group, ``count`` rows; 0 without any."""

    def largest(self, values: Any, groups: Indices, count: int) -> Any:
        """The maxima of rows by group, ``count`` rows; 0 without any, or where all are negative."""


class Numpy:
    """The operations by numpy."""

    module: Any = np

    def array(self, values: Array) -> Array:
        return values

    def sums(self, values: Array, groups: Indices, count: int) -> Array:
        found = np.zeros((count, *values.shape[1:]), dtype=values.dtype)
        np.add.at(found, groups, values)
        return found

    def largest(self, values: Array, groups: Indices, count: int) -> Array:
        found = np.zeros((count, *values.shape[1:]), dtype=values.dtype)
        np.maximum.at(found, groups, values)
        return found


def forward(by: Operations, weights: Mapping[str, Any], batch: Batch) -> dict[str, Any]:
    """The predictions for each placement: logarithms (base 10) of age and relative rate, and two log odds."""
    state = _states(by, weights, batch)
    # One row a job, one column a target: at sinks age, share, and failure; everywhere back pressure.
    found = state @ weights["heads"] + weights["heads_bias"]
    age, rate, failed, pressed = (found[:, each] for each in range(len(TARGETS)))
    exp, log = by.module.exp, by.module.log
    ones = np.ones(len(batch.sinks), dtype=np.float32)
    sinks = by.sums(by.array(ones), batch.sink_of, batch.count)
    ages = by.sums(exp(_LN10 * age[batch.sinks].clip(-6, 6)), batch.sink_of, batch.count) / sinks
    shares = by.array(batch.weights) / (1 + exp(-rate[batch.sinks].clip(-15, 15)))
    return {
        "age": log(ages) / _LN10,
        "rate": log(by.sums(shares, batch.sink_of, batch.count) + FLOOR) / _LN10,
        "failed": log(by.sums(exp(failed[batch.sinks].clip(-15, 15)), batch.sink_of, batch.count)),
        "pressed": log(by.sums(exp(pressed.clip(-15, 15)), batch.job_of, batch.count)),
    }


def _states(by: Operations, weights: Mapping[str, Any], batch: Batch) -> Any:
    """The states of the jobs after all messages, a row a job."""
    join = by.module.concatenate
    jobs = _scaled(by.array(batch.jobs), weights["scale_jobs"])
    codes = join(
        [
            _layer(jobs[batch.classes == each], weights["jobs"][each], weights["jobs_bias"][each])
            for each in range(len(CLASSES))
        ]
    )[np.argsort(np.argsort(batch.classes, kind="stable"))]
    sites = _scaled(by.array(batch.sites), weights["scale_sites"])
    hosts = _layer(sites, weights["sites"], weights["sites_bias"])
    load = by.sums(codes, batch.places, len(batch.sites))
    hosts = _layer(join([hosts, load], 1), weights["on_site"], weights["on_site_bias"])
    placed = _layer(join([codes, hosts[batch.places]], 1), weights["on_job"], weights["on_job_bias"])
    found, start = placed[:0], 0
    for level in batch.levels:
        own = placed[start : start + level.count]
        start += level.count
        sent = found[level.writers]
        many = np.maximum(np.bincount(level.readers, minlength=level.count), 1)[:, None]
        mean = by.sums(sent, level.readers, level.count) / by.array(many.astype(np.float32))
        most = by.largest(sent, level.readers, level.count)
        changed = _layer(join([own, mean, most], 1), weights["flow"], weights["flow_bias"])
        changed = _layer(join([own, changed], 1), weights["inner"], weights["inner_bias"])
        found = join([found, own + mean + changed])
    return found


def _scaled(rows: Any, scale: Any) -> Any:
    return ((rows - scale[0]) / scale[1]).clip(-FARTHEST, FARTHEST)


def _layer(rows: Any, weight: Any, bias: Any) -> Any:
    return (rows @ weight + bias).clip(0)
