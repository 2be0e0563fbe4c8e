"""Features of the plan of a job for learned cost models; pure.

The first eleven are those of the flat-vector baseline of Costream (Heinrich et al., ICDE 2024; its public
code, ``costream-learning/baseline.py``): the number of hosts and of operators of six classes, and the mean
selectivity of the operators of four.  The others are properties of the plan, and the job's profile.
"""

from __future__ import annotations

from dataclasses import dataclass

from speck.core.engine_plan import OperatorClass


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: its ``name``, its ``unit`` and its ``meaning``."""

    name: str
    unit: str
    meaning: str


FLAT = (
    Feature("hosts", "count", "sites that the job runs at: 1 for each job"),
    Feature("sources", "count", "operators of the class source"),
    Feature("filters", "count", "operators of the class filter"),
    Feature("filter_selectivity", "rows out/row in", "mean over the filters; 0 without any"),
    Feature("aggregations", "count", "operators of the class aggregation (without windows)"),
    Feature("aggregation_selectivity", "rows out/row in", "mean over the aggregations; 0 without any"),
    Feature("windowed_aggregations", "count", "operators of the class windowed_aggregation"),
    Feature(
        "windowed_aggregation_selectivity",
        "rows out/row in",
        "mean over the windowed aggregations; 0 without any",
    ),
    Feature("joins", "count", "operators of the class join"),
    Feature("join_selectivity", "rows out/row in", "mean over the joins; 0 without any"),
    Feature("sinks", "count", "operators of the class sink"),
)
"""The eleven features of Costream's baseline, in its order."""

PLAN = (
    Feature("operators", "count", "operators of any class"),
    Feature("exchanges", "count", "edges whose strategy is not forward"),
    Feature("depth", "count", "operators on the longest path; empty for a plan with a cycle"),
    Feature("parallelism", "subtasks", "the largest parallelism of an operator"),
)
"""Properties of the plan alone."""

MEASURED = (
    Feature("rate_in", "messages/s", "messages that the job takes in"),
    Feature("rate_out", "messages/s", "messages that the job sends"),
    Feature("bytes_in", "bytes/message", "mean size of a message in, topic included"),
    Feature("bytes_out", "bytes/message", "mean size of a message out, topic included"),
    Feature("cost", "core-s/message", "processor time of a reference core"),
    Feature("fixed", "cores", "use of the job without messages, of reference cores"),
    Feature("selectivity", "messages out/message in", "of the whole job"),
    Feature("state", "bytes", "size of the job's state"),
)
"""Values of the job's profile (:class:`speck.placement.profile.JobProfile`), of the same names."""

FEATURES = FLAT + PLAN + MEASURED

FLAT_CLASSES = (
    (OperatorClass.FILTER, "filters", "filter_selectivity"),
    (OperatorClass.AGGREGATION, "aggregations", "aggregation_selectivity"),
    (OperatorClass.WINDOWED_AGGREGATION, "windowed_aggregations", "windowed_aggregation_selectivity"),
    (OperatorClass.JOIN, "joins", "join_selectivity"),
)
