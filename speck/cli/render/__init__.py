"""Lines and tables made from plain data; pure, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.adaptation import adaptation_lines, adaptations_lines, decision_line, step_line
from speck.cli.render.adoptions import adoption_lines
from speck.cli.render.checks import checkup_lines, checkup_table, doctor_report, fault_count, faults_of
from speck.cli.render.facts import facts
from speck.cli.render.features import features_csv, features_data, features_table
from speck.cli.render.folding import folded_jobs
from speck.cli.render.live import (
    SORTS,
    change_line,
    job_changes,
    operation_changes,
    problems_first,
    rates_table,
    running_lines,
    sorted_rates,
    watch_table,
)
from speck.cli.render.placements import (
    comparison_table,
    figure_lines,
    offer,
    placement_lines,
    policies_tables,
    span,
)
from speck.cli.render.plans import (
    action_line,
    change_lines,
    counted,
    difference_lines,
    has_changes,
    operation_summary,
    plan_lines,
)
from speck.cli.render.profiles import links_table, profile_table, site_profiles_table
from speck.cli.render.splits import split_advice_lines, split_lines, splits_table
from speck.cli.render.steps import steps_table
from speck.cli.render.tables import table
from speck.cli.render.upgrades import upgrade_lines, upgrade_summary, upgrade_wave_text, upgraded_line
from speck.cli.render.values import Data, clock, first_words, shown
from speck.cli.render.workers import workers_lines
from speck.core.lifecycle import shown_kind

__all__ = [
    "SORTS",
    "abandoned_table",
    "action_line",
    "adaptation_lines",
    "adaptations_lines",
    "adoption_lines",
    "change_line",
    "change_lines",
    "checkup_lines",
    "checkup_table",
    "clock",
    "comparison_table",
    "compositions_table",
    "counted",
    "decision_line",
    "deletions_table",
    "difference_lines",
    "doctor_report",
    "events_table",
    "facts",
    "faults_of",
    "features_csv",
    "features_data",
    "features_table",
    "figure_lines",
    "finding_lines",
    "folded_jobs",
    "has_changes",
    "job_changes",
    "jobs_table",
    "links_table",
    "offer",
    "operation_changes",
    "operation_summary",
    "operations_table",
    "placement_lines",
    "plan_lines",
    "policies_tables",
    "problems_first",
    "profile_table",
    "rates_table",
    "revisions_table",
    "running_lines",
    "servers_table",
    "shown",
    "site_profiles_table",
    "sites_table",
    "sorted_rates",
    "split_advice_lines",
    "split_lines",
    "splits_table",
    "step_line",
    "steps_table",
    "upgrade_lines",
    "upgrade_summary",
    "upgrade_wave_text",
    "upgraded_line",
    "watch_table",
    "workers_lines",
]


def jobs_table(jobs: Iterable[Data], *, whole: bool = True) -> Table:
    """A row for each job: its desired and its observed state; long texts are cut unless ``whole``."""
    rows = list(jobs)
    # MQTT brokers do not count: a column without a number would be noise.
    behind = any(each.get("behind") is not None for each in rows)
    columns = (
        "JOB",
        "COMPOSITION",
        "ENGINE",
        "DESIRED",
        "STATE",
        *(("BEHIND",) if behind else ()),
        "OBSERVED",
        "DRIFT",
        "NEXT RETRY",
        "MESSAGE",
    )
    return table(
        columns,
        (
            (
                each["job_name"],
                each["composition"],
                (each["job"] or {}).get("site") or (each["job"] or {}).get("spe_address"),
                each["wanted"],
                each["state"] if each.get("reading", True) else f"{each['state']}, not reading",
                *((_behind(each),) if behind else ()),
                clock(each["observed_at"]),
                each["drift"],
                each["next_try"] and clock(each["next_try"]),
                _messages(each) if whole else first_words(_messages(each)),
            )
            for each in rows
        ),
    )


def _behind(job: Data) -> str:
    if job.get("behind") is None:
        return "-"
    age = job.get("behind_seconds")
    return f"{job['behind']:,}" + (f" ({span(age)})" if age else "")


def _messages(job: Data) -> str:
    """The messages of a job, each text once."""
    texts: list[str] = []
    for text in (*_alarms(job), job["waits"], job["drift_message"], job["error"], job["message"]):
        if text and not any(text in other for other in texts):
            texts.append(text)
    return "; ".join(texts)


def _alarms(job: Data) -> Iterable[str]:
    """The recent losses of a job (of a server that reports them)."""
    return (
        f"{'at least ' * each.get('at_least', False)}{each['count']} {each['text']}"
        for each in job.get("losses", ())
        if each["alarm"]
    )


def compositions_table(compositions: Iterable[Data]) -> Table:
    """A row for each composition."""
    rows = (
        (
            each["name"],
            each["revision"],
            each["jobs"],
            each["operation"] or ("deleting" if each["deleting"] else ""),
        )
        for each in compositions
    )
    return table(("COMPOSITION", "REVISION", "JOBS", "OPERATION"), rows)


def outcome_text(revision: Data) -> str | None:
    """The outcome of a revision, and the revision that replaced it."""
    return f"{revision['outcome']} by {revision['by']}" if revision.get("by") else revision.get("outcome")


def revisions_table(revisions: Iterable[Data]) -> Table:
    """A row for each revision of a composition."""
    rows = (
        (
            each["number"],
            clock(each["at"]),
            each["author"],
            each["jobs"],
            counted(each["changes"]),
            outcome_text(each),
            _first_line(each["message"]),
        )
        for each in revisions
    )
    return table(("REVISION", "TIME", "BY", "JOBS", "CHANGES", "OUTCOME", "MESSAGE"), rows)


def deletions_table(deletions: Iterable[Data]) -> Table:
    """A row for each deleted composition."""
    rows = (
        (each["name"], each["revision"], clock(each["at"]), each["author"], _first_line(each["message"]))
        for each in deletions
    )
    return table(("COMPOSITION", "REVISION", "DELETED", "BY", "MESSAGE"), rows)


def operations_table(operations: Iterable[Data]) -> Table:
    """A row for each operation, without its actions."""
    rows = (
        (
            each["id"],
            clock(each["started"]),
            each["kind"],
            each["composition"],
            each["revision"],
            each["state"],
            ", ".join(f"{number} {state}" for state, number in sorted(each["counts"].items())),
            each["author"],
            _first_line(each["message"]),
        )
        for each in operations
    )
    columns = ("OPERATION", "STARTED", "KIND", "COMPOSITION", "REVISION", "STATE", "JOBS", "BY", "MESSAGE")
    return table(columns, rows)


def _first_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} ..." if more else first


def finding_lines(findings: Iterable[Data]) -> Iterable[Text]:
    """The faults of a store, each with the repair made; last their number."""
    found = list(findings)
    for each in found:
        remedy = f" -> {each['remedy']}" if each.get("remedy") else ""
        yield Text(f"{each['what']}: {each['message']}{remedy}", style="yellow" if remedy else "red")
    yield Text(fault_count(len(found)), style="bold")


def sites_table(sites: Iterable[Data]) -> Table:
    """A row for each engine and each broker of the inventory, with its reachability.

    Has a column with the agents of sites if there are any.
    """
    found = list(sites)
    agents = any(each.get("agent") for each in found)  # servers before 0.3 have none
    rows = ([name, *([agent] if agents else []), *row] for name, agent, *row in _site_rows(found))
    return table(("SITE", *(["AGENT"] if agents else []), "SERVER", "ADDRESS", "REACHABLE", "MESSAGE"), rows)


def _agent_text(agent: Data | None) -> str:
    if agent is None:
        return "none"
    since = f" since {clock(agent['since'])}" if agent["since"] else ""
    restarts = agent.get("restarts", 0)  # servers before 0.3 have none
    if agent["connected"]:
        restarted = f", {restarts} restart{'s' * (restarts != 1)}" if restarts else ""
        return f"connected{since}, version {agent['version']}{restarted}"
    return "revoked" if agent["revoked"] else f"away{since}"


def _site_rows(sites: Iterable[Data]) -> Iterator[Sequence[Any]]:
    for site in sites:
        agent = _agent_text(site.get("agent"))
        for role, server in [*(("engine", each) for each in site["engines"]), ("broker", site["broker"])]:
            says = "; ".join(filter(None, [server["error"], *server.get("warnings", [])]))
            reached = "yes" if server["reached"] else "stopped" if server.get("stopped") else "no"
            yield site["name"], agent, role, server["address"], reached, says


def abandoned_table(abandoned: Iterable[Data]) -> Table:
    """A row for each abandoned attempt, abandoned session and orphan."""
    rows = (
        (
            each["job_name"],
            each["composition"],
            each["kind"] if each["attempt"] is None else f"{each['kind']}, attempt {each['attempt']}",
            each.get("verdict", ""),  # servers before 0.2 have none
            each["site"],
            each["address"],
            each["session"],
            "yes" if each["fenced"] else "no",
        )
        for each in abandoned
    )
    return table(("JOB", "COMPOSITION", "KIND", "VERDICT", "SITE", "ADDRESS", "SESSION", "FENCED"), rows)


def servers_table(servers: Iterable[Data]) -> Table:
    """A row for each engine and each broker of this machine."""
    rows = ((each["site"], each["kind"], each["address"], each["state"], each["pid"]) for each in servers)
    return table(("SITE", "ROLE", "ADDRESS", "STATE", "PID"), rows)


def events_table(events: Iterable[Data]) -> Table:
    """A row for each event of the audit log."""
    rows = (
        (
            clock(each["at"]),
            shown_kind(each["kind"]),
            each["message"],
            each["author"],
            _first_line(each["cause"]),
        )
        for each in events
    )
    return table(("TIME", "EVENT", "MESSAGE", "BY", "REASON"), rows)
