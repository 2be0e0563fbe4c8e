"""Queries in parts: messages of two inputs in disorder, cuts that change between them, frames interleaved."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from speck.sql.bind import bind
from speck.sql.cuts import cuts_by_table, input_of, rest_of, timed
from speck.sql.evaluate import evaluate
from speck.sql.program import ROWS_FRAME, Program
from tests.sql.random_queries import CONTRACT

LAG = CONTRACT.watermark_ms or 0
INPUTS = ("rows-a", "rows-b")
Message = tuple[str, bytes]
Left = list[str]  # what an input job has kept of open slides, in a form of its own
# Runs an input job on messages, beginning with what the one before it has left; returns its frames, and what
# it leaves in turn, which is nothing at the last messages.
Run = Callable[[Program, list[Message], Left, bool], tuple[list[str], Left]]


def with_cuts(text: str) -> Program:
    """The program of a query of one table; one without windows as if it had a rest."""
    program = bind(text, {"rows": CONTRACT}).program
    return program if program.stateful else timed(program, CONTRACT)


def in_disorder(rows: Sequence[dict[str, object]], dice: random.Random) -> list[Message]:
    """The rows as messages, none later than another one by more than the watermark."""
    jitter = {id(each): int(str(each["t"])) + dice.randint(0, LAG) for each in rows}
    ordered = sorted(rows, key=lambda each: jitter[id(each)])
    return [("rows/in", json.dumps(each).encode()) for each in ordered]


def run_by_reference(part: Program, found: list[Message], left: Left, last: bool) -> tuple[list[str], Left]:
    """The messages of a part, and frames without a progress that the next job passes on at once."""
    sent = evaluate(part, found, end=False).messages
    if part.windows is None or last:
        return left + evaluate(part, found).messages, []
    assert part.sends is not None
    # Its times do not depend on the progress.
    whole = replace(part, sends=replace(part.sends, frame=ROWS_FRAME))
    return left + sent, list(map(without_progress, evaluate(whole, found).messages[len(sent) :]))


def without_progress(frame: str) -> str:
    version, cut, _, *rows = json.loads(frame)
    return json.dumps([version, cut, 0, *rows])


@dataclass
class Input:
    """The messages of one input job, whose cut changes from time to time."""

    program: Program
    found: list[Message]
    dice: random.Random
    table: int = 0
    run: Run = run_by_reference

    def frames(self) -> list[str]:
        cuts = cuts_by_table(self.program)[self.table]
        sent, rest, left = list[str](), self.found, Left()
        while rest:
            count = self.dice.randint(1, len(rest))
            part = input_of(self.program, self.dice.choice(cuts), self.table)
            frames, left = self.run(part, rest[:count], left, count == len(rest))
            sent += frames
            rest = rest[count:]
        return sent


def interleaved(sent: dict[str, list[str]], dice: random.Random) -> list[Message]:
    """The frames of all inputs, each input's in their order."""
    order = [name for name, frames in sent.items() for _ in frames]
    dice.shuffle(order)
    waiting = {name: iter(frames) for name, frames in sent.items()}
    return [(f"speck/sql/q/0/{name}", next(waiting[name]).encode()) for name in order]


def run_in_parts(
    program: Program,
    rows: Iterable[dict[str, object]],
    dice: random.Random,
    run: Run = run_by_reference,
) -> list[str]:
    parts: dict[str, list[dict[str, object]]] = {name: [] for name in INPUTS}
    for each in rows:
        parts[dice.choice(INPUTS)].append(each)
    sent = {
        name: Input(program, in_disorder(found, dice), dice, run=run).frames()
        for name, found in parts.items()
    }
    outcome = evaluate(rest_of(program, INPUTS), interleaved(sent, dice))
    assert not outcome.unparsable and not outcome.late
    return sorted(outcome.messages)
