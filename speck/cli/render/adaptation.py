"""The adaptation loop: its state, its decisions with their reasons, its steps and bans."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from speck.cli.render.tables import table
from speck.cli.render.values import Data, clock

_COMPOSITIONS = ("COMPOSITION", "MODE", "STATE", "STEPS", "NEXT", "DECISION", "TIME", "REASON")
_DECISIONS = ("TIME", "DECISION", "TIMES", "TRIGGER", "STEP", "GAIN", "REASON")
_STEPS = ("TIME", "STEP", "OBJECTIVE", "PREDICTED", "OUTCOME", "CHECKS", "REVISION", "OPERATION")
_BANS = ("JOBS", "BANNED SITE", "UNTIL", "TIMES", "REASON")
_SHOWN = {"back": "revert"}  # a decision; the stored word is the key
_OUTCOMES = {"back": "reverted"}
_DECIDED = {"hold": "dim", "advise": "cyan", "step": "bold magenta", "back": "bold yellow"}
_STYLES = {"off": "dim", "paused": "yellow", "moving": "cyan", "judging": "cyan"}


def adaptations_lines(data: Data) -> Iterator[RenderableType]:
    """A row for each composition, with its last decision."""
    if not data["enabled"]:
        yield Text("adaptation is turned off at the server (speck serve --adapt 0)", style="yellow")
    yield table(_COMPOSITIONS, (_row(each) for each in data["compositions"]))


def _row(data: Data) -> tuple[object, ...]:
    last = data["last"]
    decided = ("", "", "") if last is None else (_decision(last), clock(last["at"]), last["reason"])
    return (data["composition"], data["mode"], data["state"], _steps(data), _clock(data["next"]), *decided)


def adaptation_lines(data: Data) -> Iterator[RenderableType]:
    """The state, the decisions, the steps and the bans of one composition."""
    yield _heading(data)
    if data["entries"]:
        yield table(_DECISIONS, (_entry(each) for each in data["entries"]))
    else:
        yield Text("no decisions yet", style="dim")
    if data["steps"]:
        yield Text("\nsteps of the last day", style="bold")
        yield table(_STEPS, (_step(each) for each in data["steps"]))
    if data["bans"]:
        yield Text("\nbans", style="bold")
        yield table(_BANS, (_ban(each) for each in data["bans"]))


def decision_line(entry: Data) -> Text:
    """A decision in one line."""
    line = Text(f"  {_decision(entry):<7} ", style=_DECIDED.get(entry["decision"], ""))
    return line.append(f"{entry['trigger']:<8} {entry['reason']}")


def _decision(entry: Data) -> str:
    return str(_SHOWN.get(entry["decision"], entry["decision"]))


def _outcome(step: Data) -> str:
    return str(_OUTCOMES.get(step["outcome"], step["outcome"]))


def _heading(data: Data) -> Text:
    line = Text(f"{data['composition']} (revision {data['revision']}): ", style="bold")
    line.append(data["state"], style=_STYLES.get(data["state"], "green"))
    parts = [f"mode {data['mode']}", f"{_steps(data)} steps in the last hour"]
    if data["paused_until"] is not None:
        parts.append(f"paused until {clock(data['paused_until'])}")
    if data["advises_until"] is not None:
        parts.append(f"advises only until {clock(data['advises_until'])}: limit of steps reached")
    if data["next"] is not None:
        parts.append(f"next decision {clock(data['next'])}")
    line.append(f"; {'; '.join(parts)}", style="not bold")
    return line


def _steps(data: Data) -> str:
    return f"{data['steps_last_hour']} of {data['steps_per_hour']}"


def _clock(at: float | None) -> str:
    return "" if at is None else clock(at)


def _entry(entry: Data) -> tuple[object, ...]:
    gain = "" if entry["gain"] is None else f"{entry['gain']:.0%}"
    times = entry["repeated"] if entry["repeated"] > 1 else ""
    step = _move(entry) if entry["target"] else ""
    return (
        *(clock(entry["at"]), _decision(entry), times, entry["trigger"]),
        *(step, gain, entry["reason"]),
    )


def _move(step: Data) -> str:
    return f"{', '.join(step['jobs'])} {step['source']} -> {step['target']}"


def _step(step: Data) -> tuple[object, ...]:
    windows = f"{step['good']} of {step['windows']}" if step["windows"] else ""
    figures = (_figure(step["objective"]), _figure(step["predicted"]))
    outcome = f"{_outcome(step)} (reverts a step)" if step["back"] else _outcome(step)
    made = (step["revision"] or "", step["operation"])
    return (clock(step["at"]), _move(step), *figures, outcome, windows, *made)


def step_line(step: Data) -> Text:
    """A step in one line, with its outcome."""
    line = Text(f"  {_move(step)}: ")
    line.append(_outcome(step), style="bold green" if step["outcome"] == "kept" else "bold yellow")
    return line.append(
        f"; {step['good']} of {step['windows']} windows passed; objective {_figure(step['objective'])} "
        f"before, {_figure(step['predicted'])} predicted"
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ban(ban: Data) -> tuple[object, ...]:
    return (", ".join(ban["jobs"]), ban["target"], clock(ban["until"]), ban["times"], ban["reason"])
