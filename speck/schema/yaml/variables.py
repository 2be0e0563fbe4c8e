"""Variables in a file: ``${NAME}``, ``${NAME:-DEFAULT}``, and ``$${`` for a literal ``${``.

Text is expanded before it is parsed, scalar by scalar, and each line keeps its number.  A value cannot change
the document's structure: where it could, it is quoted.  Text that is not YAML is left unchanged, for
:func:`speck.schema.yaml.parser.parse` to reject.  ``${each.site}`` is no variable and stays, for
:mod:`speck.schema.for_each`.

The client substitutes its own variables in a composition (:func:`substitute`); the server then expands the
others to their defaults (:func:`expand`), never from its own environment.  A site inventory is expanded by
the process that reads it (:func:`expand_inventory`); ``${NAME}`` as a password or token is a reference to a
secret there, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import Faults, quoted
from speck.schema.secret_detection import EXPECTED, names_secret

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERENCE = re.compile(
    r"(?P<each>\$?\$\{each\.)|(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}|(?P<bad>\$\{)"
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FORMS = "expected ${NAME}, ${NAME:-DEFAULT}, or $${ for a literal '${'"
_MERGE = "<<"
_PROPERTIES = (yaml.AnchorToken, yaml.TagToken)  # may precede a value
_SECRET = {
    "composition": f"compositions are stored and shown ({EXPECTED}; logins to engines and brokers belong in "
    "the site inventory)",
    "inventory": "this field is shown (expected it only as the password or token of a login: see "
    "docs/secrets.md)",
}
_MISSPELT = 0.8  # similarity; that of two fields of the inventory is less
_FILE = "file:"  # prefix of a reference to a secret in a file; its path may contain variables


@dataclass
class _Expansion:
    """Replaces references by values, and collects the faults.

    ``final``: references without a value are replaced by their defaults or are faults; otherwise they stay.
    ``subject`` is the kind of document; values of ``secret_keys`` may be references to secrets, and stay.
    """

    variables: Mapping[str, str]
    final: bool
    subject: str = "composition"
    secret_keys: frozenset[str] = frozenset()
    faults: Faults = field(default_factory=Faults)

    def expand(self, text: str, line: int | None) -> str:
        """The text with its references replaced; ``line`` is that of its faults."""
        return _REFERENCE.sub(lambda match: self._replacement(match, line), text)

    def _replacement(self, match: re.Match[str], line: int | None) -> str:
        if match["each"]:
            return match[0]  # of a for_each: its jobs are made when the text is parsed
        if match["escaped"]:
            return "${" if self.final else match[0]
        name, value = match["name"], self.variables.get(match["name"] or "")
        if match["bad"]:
            self._add(f"'${{' does not start a variable ({_FORMS})", line)
        elif names_secret(name):
            self._add(f"variable {name!r} has the name of a secret, but {_SECRET[self.subject]}", line)
        elif value:
            return value if self.final else value.replace("${", "$${")
        elif match["default"] is not None:
            return match["default"] if self.final else match[0]
        elif value is not None:
            return value
        elif self.final:
            right = f"--set {name}=VALUE, a line in a file given by --env, or ${{{name}:-DEFAULT}}"
            self._add(f"variable {name!r} has no value (expected {right})", line)
        return match[0]

    def add_unquoted(self, line: int) -> None:
        """Add the fault of a reference whose brace YAML reads as that of a mapping."""
        self._add("a variable inside { } or [ ] must be in quotes", line)

    def add_misspelt(self, key: str, near: str, line: int) -> None:
        """Add the fault of a reference to a secret under a name that is almost the right one."""
        self._add(f"unknown field {quoted(key)} (did you mean {near!r}?)", line)

    def _add(self, message: str, line: int | None) -> None:
        self.faults.append(Fault(message, line=line))


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """The composition (YAML or JSON) with these variables replaced; others stay for the server.

    Raises :class:`InvalidInput` for malformed references, and for secrets.
    """
    return _expand_text(text, _Expansion(variables, final=False))


def expand(text: str) -> str:
    """The composition (YAML) with the defaults of all variables.

    Raises :class:`InvalidInput` with all that have none, all malformed references and all secrets.
    """
    return _expand_text(text, _Expansion({}, final=True))


def expand_parsed(value: Any) -> Any:
    """:func:`expand` for a composition that is parsed already, such as JSON."""
    expansion = _Expansion({}, final=True)
    expanded = _map_text(value, lambda text: expansion.expand(text, None))
    if expansion.faults:
        raise InvalidInput(expansion.faults, "composition")
    return expanded


def expand_inventory(text: str, variables: Mapping[str, str], secret_keys: frozenset[str]) -> str:
    """The site inventory (YAML) with these values, or the defaults, of all variables.

    References to secrets under ``secret_keys`` stay.  Raises :class:`InvalidInput` as :func:`expand`.
    """
    expansion = _Expansion(variables, final=True, subject="inventory", secret_keys=secret_keys)
    return _expand_text(text, expansion)


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value) if "${" in value else value
    if isinstance(value, dict):
        return {_map_text(key, change): _map_text(inner, change) for key, inner in value.items()}
    return [_map_text(each, change) for each in value] if isinstance(value, list) else value


def _expand_text(text: str, expansion: _Expansion) -> str:
    if "${" not in text:
        return text
    parts, end = [], 0
    for key, token in _scalars(text):
        first, last = token.start_mark.index, token.end_mark.index
        if token.plain and text[last - 1 : last + 1] == "${":
            expansion.add_unquoted(token.start_mark.line + 1)
        if "${" in token.value and (key not in expansion.secret_keys or token.value.startswith(_FILE)):
            if near := get_close_matches(key, expansion.secret_keys - {key}, n=1, cutoff=_MISSPELT):
                expansion.add_misspelt(key, near[0], token.start_mark.line + 1)
                continue
            value = expansion.expand(token.value, token.start_mark.line + 1)
            written = text[first:last]
            parts += [text[end:first], written if value == token.value else _scalar(value, token, written)]
            end = last
    if expansion.faults:
        raise InvalidInput(expansion.faults, expansion.subject)
    return "".join((*parts, text[end:]))


def _scalars(text: str) -> Iterator[tuple[str, Any]]:
    """Each scalar token with the key that it is the value of (empty for keys and items)."""
    key, place = "", None
    try:
        for token in yaml.scan(text, Loader=_LOADER):
            if isinstance(token, yaml.ScalarToken):
                yield key if place is yaml.ValueToken else "", token
                key = token.value
            if not isinstance(token, _PROPERTIES):
                place = type(token)
    except yaml.YAMLError:
        return


def _scalar(value: str, token: Any, written: str) -> str:
    """A value in the place of the written scalar, with as many lines."""
    if token.plain and "\n" not in written and _stays_plain(value):
        return value
    return f'"{"".join(map(_escaped, value))}"' + "\n" * written.count("\n")


def _escaped(character: str) -> str:
    """A character as it is written between double quotes (YAML 1.1, section 5.6)."""
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _stays_plain(value: str) -> bool:
    """True if the value is one plain scalar, wherever one is allowed outside of ``{ }`` and ``[ ]``."""
    if not value.isprintable() or value == _MERGE:
        return False
    try:
        tokens = list(yaml.scan(value, Loader=_LOADER))
    except yaml.YAMLError:
        return False
    scalars = [each for each in tokens if isinstance(each, yaml.ScalarToken)]
    return len(tokens) == 3 and len(scalars) == 1 and bool(scalars[0].plain) and scalars[0].value == value


def names_in(text: str) -> set[str]:
    """The names of the variables in a text."""
    return {match["name"] for match in _REFERENCE.finditer(text) if match["name"]}


def invalid_name(name: str) -> str:
    """The fault of a name that is not a variable's, as a sentence."""
    return f"{quoted(name)} is not the name of a variable (expected letters, digits and '_', no digit first)"
