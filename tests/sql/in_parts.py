"""Queries in parts: messages of two inputs in disorder, cuts that change between them, frames interleaved."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from speck.sql.cuts import cuts_by_table, input_of, rest_of
from speck.sql.evaluate import evaluate
from speck.sql.program import Program
from speck.sql.types import PARTIALS
from tests.sql.random_queries import CONTRACT

LAG = CONTRACT.watermark_ms or 0
INPUTS = ("rows-a", "rows-b")
Message = tuple[str, bytes]


def in_disorder(rows: Sequence[dict[str, object]], dice: random.Random) -> list[Message]:
    """The rows as messages, none later than another one by more than the watermark."""
    jitter = {id(each): int(str(each["t"])) + dice.randint(0, LAG) for each in rows}
    ordered = sorted(rows, key=lambda each: jitter[id(each)])
    return [("rows/in", json.dumps(each).encode()) for each in ordered]


@dataclass
class Input:
    """The messages of one input job, whose cut changes from time to time."""

    program: Program
    found: list[Message]
    dice: random.Random
    table: int = 0

    def frames(self) -> list[str]:
        offered = cuts_by_table(self.program)[self.table]
        sent, rest = list[str](), self.found
        cuts = [each for each in offered if each != PARTIALS]
        while rest:
            if PARTIALS in offered and self.dice.random() < 0.3:  # which is not left again
                return sent + evaluate(input_of(self.program, PARTIALS), rest).messages
            count = self.dice.randint(1, len(rest))
            part = input_of(self.program, self.dice.choice(cuts), self.table)
            sent += evaluate(part, rest[:count]).messages
            rest = rest[count:]
        return sent


def interleaved(sent: dict[str, list[str]], dice: random.Random) -> list[Message]:
    """The frames of all inputs, each input's in their order."""
    order = [name for name, frames in sent.items() for _ in frames]
    dice.shuffle(order)
    waiting = {name: iter(frames) for name, frames in sent.items()}
    return [(f"speck/sql/q/0/{name}", next(waiting[name]).encode()) for name in order]


def run_in_parts(program: Program, rows: list[dict[str, object]], dice: random.Random) -> list[str]:
    parts: dict[str, list[dict[str, object]]] = {name: [] for name in INPUTS}
    for each in rows:
        parts[dice.choice(INPUTS)].append(each)
    sent = {name: Input(program, in_disorder(found, dice), dice).frames() for name, found in parts.items()}
    outcome = evaluate(rest_of(program, INPUTS), interleaved(sent, dice))
    assert not outcome.unparsable and not outcome.late
    return sorted(outcome.messages)
