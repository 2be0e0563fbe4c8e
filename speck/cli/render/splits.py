"""Splits by keys: their jobs as a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from speck.cli.render.tables import table
from speck.cli.render.values import Data

_ROLES = ("partitioner", "combiner", "reducer")
_MOST_SITES = 6


def split_groups(actions: Iterable[Data]) -> Iterator[tuple[str, list[Data]]]:
    """The actions, those of the jobs of a split together: its name (else empty) and its actions in order."""
    found: dict[tuple[str, str], list[Data]] = {}
    for action in actions:
        part = action.get("split") or {}
        inside = part.get("role") in _ROLES
        found.setdefault((part["of"], "") if inside else ("", action["job"]), []).append(action)
    for (split, _), members in found.items():
        yield split, sorted(members, key=_rank) if split else members


def _rank(action: Data) -> tuple[int, int]:
    return _ROLES.index(action["split"]["role"]), action["split"].get("number", 0)


def split_heading(name: str, actions: Sequence[Data]) -> str:
    """The parts of a split in one line: ``NAME: split by balanced into partitioner (D), ...``."""
    by_role = {role: [each for each in actions if each["split"]["role"] == role] for role in _ROLES}
    routed = [each["split"]["partitioner"] for each in by_role["partitioner"]]
    parts = [_counted(role, members) for role, members in by_role.items() if members]
    return f"{name}: split{f' by {routed[0]}' if routed else ''} into {', '.join(parts)}"


def _counted(role: str, members: Sequence[Data]) -> str:
    sites = list(dict.fromkeys(each["site"] or "no site" for each in members))
    more = len(sites) - _MOST_SITES
    where = ", ".join(sites[:_MOST_SITES]) + (f" and {more} more" if more > 0 else "")
    combiners = f"{len(members)} combiner{'' if len(members) == 1 else 's'}"
    return f"{combiners if role == 'combiner' else role} ({where})"


def splits_table(splits: Iterable[Data]) -> Table:
    """A row for each split."""
    columns = ("SPLIT", "COMPOSITION", "PARTITIONER", "COMBINERS", "WINDOW", "SLIDE", "JOBS")
    return table(
        columns,
        (
            (
                each["name"],
                each["composition"],
                each["partitioner"],
                each["workers"],
                f"{each['window_seconds']:g} s",
                f"{each['slide_seconds']:g} s",
                _states(each["parts"]),
            )
            for each in splits
        ),
    )


def _states(parts: Sequence[Data]) -> str:
    states = [each["state"] for each in parts]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def split_lines(split: Data) -> Iterator[Text | Table]:
    """One split: its settings in a sentence, and a row for each of its jobs."""
    options = ", ".join(f"{name} {value:g}" for name, value in split["options"].items())
    form = "in one job" if split["in_one_job"] else f"over {split['workers']} combiners"
    yield Text.assemble(
        (split["name"], "bold"),
        f" of {split['composition']}: {form} by {split['partitioner']}{f' ({options})' if options else ''}, ",
        f"windows of {split['window_seconds']:g} s by {split['slide_seconds']:g} s, ",
        f"late after {split['lateness_seconds']:g} s",
        ", measured weights" if split["weights"] == "measured" else "",
    )
    if (metrics := split["metrics"]) is not None and metrics["reported"] is not None:
        yield Text(f"{_load(split, metrics)}; {_losses(metrics)} since the server started")
    columns = (
        *("JOB", "ROLE", "SITE", "WEIGHT", "SHARE", "STATE", "DRIFT"),
        *("IN/S", "OUT/S", "BACKLOG", "BATCH", "ROWS/S", "BUSY"),
    )
    shares = (metrics or {}).get("weights") or []
    yield table(columns, (_part_row(part, shares) for part in split["parts"]))


def _load(split: Data, metrics: Data) -> str:
    """The last metrics window in a sentence."""
    found = [f"{_rate(metrics['rows_per_second']) or 'no'} rows/s in {split['metrics_window_seconds']:g} s"]
    if metrics["imbalance"] is not None:
        found.append(f"imbalance {metrics['imbalance']:.2f}")
    if metrics["hot"] is not None:
        found.append(f"{metrics['hot']} hot keys, {metrics['true_hot']} of them split")
        found.append(f"{metrics['shared_keys']} keys shared")
    if metrics.get("policy"):
        found.append(f"policy {metrics['policy']}")
    if metrics["table_age_seconds"] is not None:
        found.append(f"weights measured {metrics['table_age_seconds']:.0f} s ago")
    return ", ".join(found)


def _losses(metrics: Data) -> str:
    counts = {each: metrics[each.replace(" ", "_")] for each in ("late rows", "bad rows", "lost frames")}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _part_row(part: Data, shares: Sequence[float]) -> tuple[object, ...]:
    number, busy = part["number"], part["busy_share"]
    weight, batch = part["weight"], part["work_seconds"]
    return (
        part["job_name"],
        part["role"],
        part["site"] or part["spe_address"],
        None if weight is None else f"{weight:g}",
        f"{shares[number]:.1%}" if number is not None and number < len(shares) else None,
        part["state"],
        part["drift"],
        _rate(part["input_rate"]),
        _rate(part["output_rate"]),
        part["waiting"],
        None if batch is None else f"{batch:.2f} s",
        _rate(part["rows_per_second"]),
        None if busy is None else f"{busy:.1%}",
    )


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:,.1f}"


def split_advice_lines(advice: Data) -> Iterator[Text | Table]:
    """The advice in a sentence, the reasons, and the busiest keys of the sample."""
    sample = advice["sample"]
    yield Text.assemble((advice["job"], "bold"), f": {_advised(advice)}")
    for reason in advice["reasons"]:
        yield Text(f"  {reason}")
    yield Text(
        f"sample: {sample['messages']:,} messages, {sample['rows']:,} rows of {sample['keys']:,} keys, "
        f"{sample['dropped']:,} bad; add {sample['add_us']:.3g} us a row, merge {sample['merge_us']:.3g} us, "
        f"a state {sample['state_bytes']:,.0f} bytes"
    )
    yield table(("KEY", "SHARE"), ((each["key"], f"{each['share']:.1%}") for each in sample["busiest"]))


def _advised(advice: Data) -> str:
    if not advice["split"]:
        return "do not split"
    number = advice["combiners"]
    where = f"over {number} sites" if advice["form"] == "sites" else f"within one job, combiners: {number}"
    return f"split {where}, by {advice['partitioner']}"
