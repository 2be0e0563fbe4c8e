"""The values of a file's variables.

The first source with a value decides: ``--set``, then the files of ``--env``, the last of them first, then
the environment of the command.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click

from speck.cli.output import warn
from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import kind_of_value
from speck.schema.yaml.lines import line_of, written_in
from speck.schema.yaml.parser import parse
from speck.schema.yaml.variables import VARIABLE, invalid_name, names_in, substitute

_Function = TypeVar("_Function", bound=Callable[..., Any])
_YAML = (".yaml", ".yml", ".json")


def variables_options(function: _Function) -> _Function:
    """The options of every command that reads a composition or a site inventory."""
    env = click.option(
        "--env",
        "env_files",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with values of variables, NAME=VALUE in each line, or a flat YAML mapping; may be "
        "repeated, the last one wins.",
    )
    given = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a variable; overrides files and the environment; may be repeated.",
    )
    return env(given(function))


def values(env_files: Iterable[Path], settings: Iterable[str], *files: Path | None) -> dict[str, str]:
    """All values by name; prints a warning for a setting that is a variable of none of the ``files``.

    Raises :class:`~speck.errors.InvalidInput` for a setting or a file in another form.
    """
    found = dict(os.environ)
    for path in env_files:
        found |= read_env(path)
    assigned = dict(_setting(each) for each in settings)
    if assigned:
        _warn_of_unknown(assigned, [each for each in files if each is not None])
    return found | assigned


def _warn_of_unknown(names: Iterable[str], files: Iterable[Path]) -> None:
    known = {name for each in files for name in names_in(each.read_text("utf-8", "replace"))}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected {', '.join(sorted(known)) or 'none'}"
            warn([{"message": f"--set {name}: no such variable ({hint})"}])


def read_composition(file: Path, variables: Mapping[str, str]) -> bytes:
    """The text of a composition with its variables replaced.

    Raises :class:`~speck.errors.InvalidInput` for a malformed variable.
    """
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content  # the server refuses it
    return substitute(text, variables).encode()


def read_env(path: Path) -> dict[str, str]:
    """The variables of a file.  Raises :class:`~speck.errors.InvalidInput`, whose text contains no value."""
    read = _of_yaml if path.suffix.lower() in _YAML else _of_lines
    faults: list[Fault] = []
    found = {}
    try:
        for name, value in read(path.read_text("utf-8-sig"), faults):
            if VARIABLE.match(name):
                found[name] = value
            else:
                faults.append(Fault(invalid_name(name)))
    except UnicodeDecodeError:
        raise InvalidInput([Fault(f"{path}: not UTF-8 text")], "variables") from None
    except InvalidInput as error:
        faults += error.faults
    if faults:
        raise InvalidInput([Fault(f"{path}: {each}") for each in faults], "variables")
    return found


def _of_lines(text: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    from dotenv.parser import parse_stream

    for binding in parse_stream(io.StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            faults.append(Fault("not in the form NAME=VALUE", line=binding.original.line))
        elif binding.key is not None and binding.value is not None:
            yield binding.key, binding.value


def _of_yaml(text: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    document = parse(text)
    faults += document.faults
    if not isinstance(document.value, Mapping):
        faults.append(Fault(f"is {kind_of_value(document.value)} (expected a mapping of names to values)"))
        return
    for name, value in document.value.items():
        # A variable is text: its value is the written one, not 1122 for 02142.
        written: object = written_in(document.value).get(name, value)
        if value is not None and isinstance(written, str | int | float):
            yield name, str(written).lower() if isinstance(written, bool) else str(written)
        else:
            message = f"{name} is {kind_of_value(value)} (expected text, a number, true or false)"
            faults.append(Fault(message, line=line_of(document.value, name)))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput([Fault("--set is not in the form NAME=VALUE")], "variables")
    if not VARIABLE.match(name):
        raise InvalidInput([Fault(f"--set: {invalid_name(name)}")], "variables")
    return name, value
