"""The faults of one text, as they are found."""

from __future__ import annotations

from collections.abc import Iterable

from speck.errors import Fault, InvalidInput

MOST = 1000


SHOWN_LENGTH = 100


def quoted(text: str) -> str:
    """Text in quotes, on one line, and never long."""
    shown = repr(text[: 2 * SHOWN_LENGTH])
    return shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 3] + "..."


def named(name: str | int) -> str:
    """A name as it stands; in quotes when it would make a message long or hard to read."""
    text = str(name)
    return text if len(text) <= SHOWN_LENGTH and text.isprintable() else quoted(text)


class Faults(list[Fault]):
    """Ends the reading of a text that is wrong everywhere: raises :class:`InvalidInput` at the last one."""

    def append(self, fault: Fault) -> None:
        super().append(fault)
        if len(self) >= MOST:
            raise InvalidInput([*self, Fault(f"reading ends here, at {MOST:,} faults")], "document")

    def __iadd__(self, faults: Iterable[Fault]) -> Faults:  # type: ignore[override,misc]
        for fault in faults:
            self.append(fault)
        return self
