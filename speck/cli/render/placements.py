"""Proposed placements: steps, reasons, figures now and after, and how the inputs are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from speck.cli.render.plans import MARKS, has_changes, plan_heading, undrained_line
from speck.cli.render.tables import table
from speck.cli.render.values import Data

_LABEL, _NOW = 24, 30  # columns
_MINUTES = 60.0
_SHOWN = 4  # names of jobs in one row


def placement_lines(proposal: Data, explained: Iterable[str] = ()) -> Iterable[Text]:
    """The plan by steps, with the reason of each job, the figures, the cost and the sources of the inputs."""
    yield _heading(proposal)
    yield from _rows(proposal, set(explained))
    for session in proposal["plan"]["leaves"]:
        yield undrained_line(session)
    yield from _figures(proposal["figures"])
    if has_changes(proposal["plan"]):
        yield _row("cost", _cost(proposal["cost"]))
    yield _row("sources", _known(proposal["known_by"]))
    if not has_changes(proposal["plan"]):
        yield Text("no better placement", style="green")


def figure_lines(plan: Data) -> Iterable[Text]:
    """The predicted figures of a plan that chooses places for jobs or topics; nothing for any other."""
    if figures := plan.get("figures"):
        yield Text("  predicted for the chosen sites (speck place FILE gives the reasons)", style="dim")
        yield from _figures(figures)


def offer(proposal: Data) -> Text:
    """The command that accepts a proposal."""
    minutes = (proposal["until"] - proposal["created"]) / _MINUTES
    until = f"valid for {minutes:.0f} minutes, unless the revision or an input changes"
    return Text(f"accept with: speck accept {proposal['id']}   ({until})")


def _heading(proposal: Data) -> Text:
    line = plan_heading(proposal["plan"])
    gap = proposal["gap"]
    proof = "" if gap is None else f", optimum to {max(gap * 100, 0.01):.2g} %"
    line.append(
        f"   placement {proposal['id']}, policy {proposal['policy']}{proof}, {proposal['seconds']:.2f} s",
        style="dim",
    )
    return line


# --- jobs


def _rows(proposal: Data, explained: set[str]) -> Iterator[Text]:
    verdicts = {each["job"]: each for each in proposal["verdicts"]}
    moved = set[str]()
    for step in proposal["steps"]:
        moved.update(step["jobs"])
        yield from _step_rows(step, verdicts)
    for home in proposal["homes"]:
        if home["from"] not in (None, home["to"]):
            yield _action("home", ", ".join(home["topics"]), f"{home['from']} -> {home['to']}")
    for action in proposal["plan"]["actions"]:
        name, kind = action["job"], action["kind"]
        verdict = verdicts.get(name)
        if name in moved:
            continue
        reasons = [] if kind in ("start", "keep") and verdict is not None else [action["reason"]]
        place = ""
        if verdict is not None:
            reasons.append(verdict["why"])
            place = f"{verdict['to']}   "
        yield _action(kind, name, place + "; ".join(reasons))
    yield from _refused(proposal["refused"], explained)


def _step_rows(step: Data, verdicts: Data) -> Iterator[Text]:
    if not step["jobs"]:
        return
    where = f"{step['from']} -> {step['to']}"
    together = "   one step" if len(step["jobs"]) > 1 else ""
    yield _action("move", ", ".join(step["jobs"]), f"{where}{together}")
    for why in dict.fromkeys(verdicts[name]["why"] for name in step["jobs"]):
        names = [name for name in step["jobs"] if verdicts[name]["why"] == why]
        prefix = "" if len(names) == len(step["jobs"]) else f"{', '.join(names)}: "
        yield Text(f"            {prefix}{why}", style="dim")


def _action(kind: str, names: str, rest: str) -> Text:
    mark, style = MARKS.get(kind, MARKS["update"])
    return Text(f"  {mark} {kind:<6}  {names}   {rest}", style=style)


def _refused(refused: Iterable[Data], explained: set[str]) -> Iterator[Text]:
    jobs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in refused:
        jobs[each["site"], each["why"]].append(each["job"])
    for (site, why), names in jobs.items():
        shown = names if explained & set(names) or len(names) <= _SHOWN else names[:_SHOWN]
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        yield Text(f"    ruled out for {', '.join(shown)}{more}   {site} {why}", style="dim")


# --- figures


def _row(label: str, *values: str) -> Text:
    first, *others = values
    return Text(f"  {label:<{_LABEL}}" + (f"{first:<{_NOW}}{others[0]}" if others else first))


def _figures(figures: Data) -> Iterator[Text]:
    now, after = figures["now"], figures["after"]
    yield Text(f"  {'':<{_LABEL}}{'now':<{_NOW}}after", style="bold")
    for label, shown in (
        ("age of results, mean", lambda each: span(each["age"])),
        ("age of results, p95", lambda each: span(each["age_p95"])),
        ("WAN", lambda each: traffic(each["wan"])),
        ("cores, reference", lambda each: f"{each['cores']:.3g}"),
        ("busiest", _busiest),
        ("sustained multiplier", _multiplier),
    ):
        yield _row(label, shown(now) if now is not None else "-", shown(after))


def _busiest(figures: Data) -> str:
    kind, load = max(figures["busiest"].items(), key=lambda pair: float(pair[1]["share"] / pair[1]["target"]))
    resource = "" if load["resource"] in ("cores", "up", "down") else f" {load['resource']}"
    return f"{kind} {load['site']}{resource} {load['share']:.2f} of {load['target']:.2f}"


def _multiplier(figures: Data) -> str:
    value = figures["multiplier"]
    if value is None:
        return "no limit"
    return (
        f"{value:.2g} ({figures['bottleneck']})" if value < 10 else f"{value:,.0f} ({figures['bottleneck']})"
    )


def _cost(cost: Data) -> str:
    if not cost["jobs"]:
        return "no downtime"
    jobs = "1 job" if cost["jobs"] == 1 else f"{cost['jobs']} jobs"
    state = f", {size(cost['state'])} of state" if cost["state"] else ""
    pays = cost["pays_after"]
    back = f"break-even after {span(pays)}" if pays is not None else "no break-even"
    if cost["catch_up"] is None:
        back = "a job could not catch up at these rates"
    return f"{jobs} down for {span(cost['standstill'])}{state}; {back}"


def _known(known: Data) -> str:
    parts = []
    for kind in ("measured", "declared", "assumed"):
        if count := known["jobs"].get(kind, 0):
            age = (
                f" ({span(known['oldest'])} ago)"
                if kind == "measured" and known["oldest"] is not None
                else ""
            )
            names = [each["job"] for each in known["by_job"] if each["known"] == kind]
            listed = f" ({', '.join(names)})" if kind != "measured" and len(names) <= _SHOWN else ""
            parts.append(f"{count} {'job' if count == 1 else 'jobs'} {kind}{age}{listed}")
    links = [each for each in known["links"] if each["known"] != "measured"]
    for kind in ("declared", "assumed"):
        pairs = sorted(
            {"-".join(sorted((each["from"], each["to"]))) for each in links if each["known"] == kind}
        )
        if pairs:
            parts.append(f"{'link' if len(pairs) == 1 else 'links'} {', '.join(pairs)} {kind}")
    return ", ".join(parts) + (": speck profile --links" if links else "")


def span(seconds: float) -> str:
    """A time as text: ``188 ms``, ``1.9 s``, ``12 min``."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    for unit, length, most in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds / 86_400:.0f} days"


def traffic(rate: float) -> str:
    """Bytes/s as text: ``412 kB/s``."""
    return f"{size(rate)}/s"


def size(number: float) -> str:
    """Bytes as text: ``1.2 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.3g} B"


def comparison_table(proposal: Data) -> Table:
    """A row for each policy."""
    columns = (
        "POLICY",
        "OBJECTIVE",
        "AGE",
        "P95",
        "WAN",
        "CORES",
        "MULTIPLIER",
        "MOVES",
        "SECONDS",
        "MESSAGE",
    )
    return table(columns, (_policy_row(each) for each in proposal["policies"]))


def _policy_row(row: Data) -> tuple[str, ...]:
    figures, taken = row["figures"], f"{row['seconds']:.2f}"
    if figures is None:
        return (row["policy"], *[""] * 7, taken, row["error"])
    return (
        row["policy"],
        f"{figures['objective']:.4g}",
        span(figures["age"]),
        span(figures["age_p95"]),
        traffic(figures["wan"]),
        f"{figures['cores']:.3g}",
        _multiplier(figures),
        str(row["moves"]),
        taken,
        "" if figures["feasible"] else "above a target",
    )


def policies_tables(policies: Iterable[Data]) -> list[RenderableType]:
    """A row for each policy: those to place jobs with, then those that only serve for comparison."""
    rows: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for each in policies:
        rows[each.get("comparison", False)].append((each["name"], each["about"]))
    tables: list[RenderableType] = [table(("POLICY", "DESCRIPTION"), rows[False])]
    return [*tables, "", table(("FOR COMPARISON", "DESCRIPTION"), rows[True])] if rows[True] else tables
