"""Changes of the code of jobs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from speck.cli.render.values import Data

CODE = "code_hash"  # the field that identifies a file, which users cannot read
_MOST = 12  # lines of one statement in a plan; `--json` and `speck diff --code` have all
_STYLES = {"-": "red", "+": "green"}


def fields_of(changes: list[Data]) -> Iterator[Data]:
    """The changed fields without that of the code, whose change is shown separately."""
    return (each for each in changes if each["field"] != CODE)


def code_lines(code: Data | None, most: int = _MOST) -> Iterator[Text]:
    """The lines that differ, statement by statement; none of a change of which they are not known."""
    for part in (code or {}).get("parts", ()):
        lines = part.get("diff", [])
        for line in lines[:most]:
            shown = "".join(each if each.isprintable() or each == "\t" else "�" for each in line)
            yield Text(f"      {shown}", style=_STYLES.get(line[:1], "dim"))
        if len(lines) > most:
            yield Text(f"      … {len(lines) - most} more lines (see speck plan --json)", style="dim")
