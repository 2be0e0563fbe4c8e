"""A composition as a user submits it, and the terms on which it is planned: options that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from speck.cli.code import LocalCode, code_roots_option, local_code
from speck.cli.options import (
    all_code_option,
    file_argument,
    gathered,
    give_up_option,
    leave_behind_option,
    waves_options,
)
from speck.cli.variables import read_composition, values, variables_options


@dataclass(frozen=True)
class Submission:
    """The text of a composition, with the values of its variables, its name, and the code of its jobs."""

    text: bytes
    name: str
    code: LocalCode


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a change: the losses that it may cause, and its order of sites; ``settle`` is in s."""

    base_revision: int | None
    all_code: bool
    leave_behind: tuple[str, ...]
    give_up: bool
    waves: tuple[str, ...]
    settle: float

    def query(self) -> dict[str, Any]:
        """The terms as parameters of a request."""
        rollout = {"wave": list(self.waves), "settle": self.settle} if self.waves else {}
        return {
            "base_revision": self.base_revision,
            "all_code": self.all_code or None,
            "leave_behind": list(self.leave_behind),
            "give_up": self.give_up or None,
            **rollout,
        }


def _submission(
    file: Path, roots: tuple[Path, ...], env_files: tuple[Path, ...], settings: tuple[str, ...]
) -> Submission:
    text = read_composition(file, values(env_files, settings, file))
    return Submission(text, file.stem, local_code(text, file, roots))


_base_revision_option = click.option(
    "--base-revision", type=int, help="Fail unless this is the latest revision."
)

# The argument FILE and its options, as the parameter ``submission`` of a command.
submitted = gathered("submission", _submission, (file_argument, code_roots_option, variables_options))

# The options of plan and apply, as the parameter ``terms``.
terms_options = gathered(
    "terms",
    Terms,
    (_base_revision_option, all_code_option, leave_behind_option, give_up_option, waves_options),
)
