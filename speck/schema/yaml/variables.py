"""Variables in a file: ``${NAME}``, ``${NAME:-what else}``, and ``$${`` for the two characters.

The text is expanded before it is read, scalar by scalar, and every line stays where it was.  A value can
change no structure: where it could, it is put in quotes.  Text that is no YAML is left as it is, for
:func:`speck.schema.yaml.parser.parse` to complain of.

A site inventory is completed by who reads it (:func:`complete_inventory`).  In it ``${NAME}`` as a password
or token refers to a secret, and stays.

Who sends a composition puts in what it knows (:func:`put_in`), and who takes one what is left
(:func:`complete`): defaults, and never anything of its own environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from speck.errors import Fault, InvalidInput
from speck.schema.faults import Faults, quoted
from speck.schema.secret_detection import RIGHT, names_secret

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERENCE = re.compile(
    r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}|(?P<bad>\$\{)"
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FORMS = "expected ${NAME}, ${NAME:-what else}, or $${ for these two characters"
_MERGE = "<<"
_BETWEEN = (yaml.AnchorToken, yaml.TagToken)  # what may stand before a value
_SECRET = {
    "composition": f"a composition is stored and shown ({RIGHT}; a login to an engine or a broker belongs "
    "into the site inventory)",
    "inventory": "what this field holds is shown (expected it as password or token of a login alone: see "
    "docs/secrets.md)",
}
_FILE = "file:"  # how a reference to a secret in a file begins; its path may have variables


@dataclass
class _Values:
    """What stands for a reference, and the faults on the way; ``rest`` says whether nothing is left over.

    ``what`` is the kind of file, ``spared`` are the keys whose values refer to secrets.
    """

    variables: Mapping[str, str]
    rest: bool
    what: str = "composition"
    spared: frozenset[str] = frozenset()
    faults: Faults = field(default_factory=Faults)

    def of(self, text: str, line: int | None) -> str:
        """The text with values in it."""
        return _REFERENCE.sub(lambda match: self._one(match, line), text)

    def _one(self, match: re.Match[str], line: int | None) -> str:
        if match["escaped"]:
            return "${" if self.rest else match[0]
        name, value = match["name"], self.variables.get(match["name"] or "")
        if match["bad"]:
            self._add(f"'${{' is not the start of a variable ({_FORMS})", line)
        elif names_secret(name):
            self._add(f"variable {name!r} is a secret by its name, and {_SECRET[self.what]}", line)
        elif value:
            return value if self.rest else value.replace("${", "$${")
        elif match["default"] is not None:
            return match["default"] if self.rest else match[0]
        elif value is not None:
            return value
        elif self.rest:
            right = f"--set {name}=VALUE, a line of a file given by --env, or ${{{name}:-what else}}"
            self._add(f"variable {name!r} has no value (expected {right})", line)
        return match[0]

    def unquoted(self, line: int) -> None:
        """Note a reference where YAML takes its brace for a mapping's."""
        self._add("a variable inside of { } or [ ] has to be in quotes", line)

    def _add(self, message: str, line: int | None) -> None:
        self.faults.append(Fault(message, line=line))


def put_in(text: str, variables: Mapping[str, str]) -> str:
    """The composition (YAML or JSON) with the variables that are known; the others stay for the server.

    Raises :class:`InvalidInput` of what is no reference, and of secrets.
    """
    return _expanded(text, _Values(variables, rest=False))


def complete(text: str) -> str:
    """The composition with defaults for all variables.  Raises :class:`InvalidInput` with all without one."""
    return _expanded(text, _Values({}, rest=True))


def completed(value: Any) -> Any:
    """The same for a composition that was parsed already, as JSON is."""
    values = _Values({}, rest=True)
    found = _walked(value, lambda text: values.of(text, None))
    if values.faults:
        raise InvalidInput(values.faults, "composition")
    return found


def complete_inventory(text: str, variables: Mapping[str, str], spared: frozenset[str]) -> str:
    """The site inventory (YAML) with these values and defaults for all variables.

    ``spared`` are the keys under which a reference to a secret stands; that stays as it is.
    Raises :class:`InvalidInput` with all that have no value, and of what is no reference.
    """
    return _expanded(text, _Values(variables, rest=True, what="inventory", spared=spared))


def _walked(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value) if "${" in value else value
    if isinstance(value, dict):
        return {_walked(key, change): _walked(inner, change) for key, inner in value.items()}
    return [_walked(each, change) for each in value] if isinstance(value, list) else value


def _expanded(text: str, values: _Values) -> str:
    if "${" not in text:
        return text
    parts, end = [], 0
    for key, token in _scalars(text):
        first, last = token.start_mark.index, token.end_mark.index
        if token.plain and text[last - 1 : last + 1] == "${":
            values.unquoted(token.start_mark.line + 1)
        if "${" in token.value and (key not in values.spared or token.value.startswith(_FILE)):
            value = values.of(token.value, token.start_mark.line + 1)
            written = text[first:last]
            parts += [text[end:first], written if value == token.value else _scalar(value, token, written)]
            end = last
    if values.faults:
        raise InvalidInput(values.faults, values.what)
    return "".join((*parts, text[end:]))


def _scalars(text: str) -> Iterator[tuple[str, Any]]:
    """Each scalar, with the key that it is the value of (empty: it is none's)."""
    key, place = "", None
    try:
        for token in yaml.scan(text, Loader=_LOADER):
            if isinstance(token, yaml.ScalarToken):
                yield key if place is yaml.ValueToken else "", token
                key = token.value
            if not isinstance(token, _BETWEEN):
                place = type(token)
    except yaml.YAMLError:
        return


def _scalar(value: str, token: Any, written: str) -> str:
    """A value in place of what was written, in as many lines."""
    if token.plain and "\n" not in written and _stays_plain(value):
        return value
    return f'"{"".join(map(_quotable, value))}"' + "\n" * written.count("\n")


def _quotable(character: str) -> str:
    """A character as it stands between double quotes (YAML 1.1, section 5.6)."""
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _stays_plain(value: str) -> bool:
    """Whether this is one plain scalar wherever one may stand outside of ``{ }`` and ``[ ]``."""
    if not value.isprintable() or value == _MERGE:
        return False
    try:
        tokens = list(yaml.scan(value, Loader=_LOADER))
    except yaml.YAMLError:
        return False
    scalars = [each for each in tokens if isinstance(each, yaml.ScalarToken)]
    return len(tokens) == 3 and len(scalars) == 1 and bool(scalars[0].plain) and scalars[0].value == value


def named_in(text: str) -> set[str]:
    """The variables that a text names."""
    return {match["name"] for match in _REFERENCE.finditer(text) if match["name"]}


def misplaced(name: str) -> str:
    """What is wrong with a name that is no variable's."""
    return f"{quoted(name)} is not the name of a variable (expected letters, digits and '_', no digit first)"
