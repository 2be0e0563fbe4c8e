"""The code of a composition's jobs, found on the user's machine and sent to the server with it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from speck.cli.terminal import err
from speck.client import Client, RequestRefused
from speck.core.inventory import Inventory
from speck.core.siblings import sibling_import
from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import Faults, quoted
from speck.schema.yaml.documents import read_document
from speck.schema.yaml.lines import line_of
from speck.schema.yaml.parser import Document

_MOST_SOURCE = 4 << 20  # bytes; the server refuses a larger Python file
_Function = TypeVar("_Function", bound=Callable[..., Any])


def code_roots_option(function: _Function) -> _Function:
    """The option for directories of job files on the user's machine, beside that of the composition."""
    return click.option(
        "--root",
        "roots",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        multiple=True,
        help="Directory of job files on this machine, in addition to that of FILE; may be repeated.",
    )(function)


@dataclass(frozen=True)
class LocalCode:
    """The files of a composition's jobs on this machine: hashes by path, and faults of those not found.

    ``directories`` are those that were searched.
    """

    directories: tuple[Path, ...]
    found: dict[str, Path] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def sent(self, client: Client) -> Iterator[Mapping[str, str]]:
        """Send what the server does not have; a rejected file lists the searched directories.

        Gives the hashes of all files that were found, by path.  Raises
        :class:`~speck.errors.InvalidInput` for files that import a module beside them, before any is sent.
        """
        if faults := list(self._sibling_faults()):
            raise InvalidInput(faults, "composition")
        for path, sha256 in list(self.hashes.items()):
            if not client.send_artifact(sha256, self.found[path]):
                del self.hashes[path]
                self.missing[path] = "exists, but the server accepts no code from clients"
        try:
            yield self.hashes
        except RequestRefused as refusal:
            for fault in refusal.faults:
                if fault.get("field") in ("job_path", "sql") and fault.get("value") in self.missing:
                    here = f"on this machine it {self.missing[fault['value']]}"
                    fault["message"] = f"{fault['message']}; {here}"
            raise
        for path, why in self.missing.items():
            err.print(
                f"{path}: the server's own file is used; on this machine it {why}", style="dim", markup=False
            )

    def _sibling_faults(self) -> Iterator[Fault]:
        for path, place in self.found.items():
            found = sibling_import(_tree(place), place)
            if found is not None:
                archive = f"a .zip or a wheel of both as job_path (Spark), or its functions in {place.name}"
                yield Fault(found.text(place.name, archive), field="job_path", value=path)


def _tree(path: Path) -> ast.Module:
    """The syntax tree of a Python file; empty for any other, and for one that the server is to refuse."""
    try:
        with path.open("rb") as file:
            source = file.read(_MOST_SOURCE + 1) if path.suffix == ".py" else b""
        return ast.parse(source if len(source) <= _MOST_SOURCE else b"")
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Module([], [])


def local_code(text: bytes, file: Path, roots: Sequence[Path]) -> LocalCode:
    """The files that a composition's text names, beside its ``file`` or below one of the ``roots``.

    Raises :class:`~speck.errors.InvalidInput` for a path that depends on the sites of a label.
    """
    from speck.store.jobfile import BadFile, content_hash, locate

    directories = tuple(dict.fromkeys((file.absolute().parent, *(each.absolute() for each in roots))))
    code = LocalCode(directories)
    codes, policies = _paths(text)
    for path in (*codes, *policies):
        try:
            found = locate(path, directories)
            code.hashes[path] = content_hash(found, directories)
            code.found[path] = found
        except BadFile as error:
            if path in codes:
                code.missing[path] = str(error)
    return code


def _paths(text: bytes) -> list[list[str]]:
    """The paths in a composition: of code and queries, and of policies, which may be those that ship.

    None of a text that cannot be read, which the server refuses.
    """
    try:
        jobs = _jobs(read_document(text))
    except InvalidInput:
        return [[], []]
    files = [_files(job) for job, _ in jobs]
    faults = [
        _of_label(entry, field)
        for (_, entry), found in zip(jobs, files, strict=True)
        for field, path in found.items()
        if "sites" in (entry.get("for_each") or ()) and path != _files(entry).get(field)
    ]
    if faults:
        raise InvalidInput(faults, "composition")
    paths = [each for found in files for each in found.items()]
    policies = dict.fromkeys(path for field, path in paths if field == "key_split")
    return [[*dict.fromkeys(path for field, path in paths if field != "key_split")], [*policies]]


def _jobs(document: Document) -> list[tuple[Any, Any]]:
    """The data of each job, and that of its entry, from which a ``for_each`` makes several."""
    jobs = document.value.get("jobs") if isinstance(document.value, dict) else None
    entries = [each for each in jobs if isinstance(each, dict)] if isinstance(jobs, list) else []
    if not document.may_refer:
        return [(each, each) for each in entries]
    from speck.schema.for_each import unfolded

    made = unfolded({"jobs": entries}, Inventory(), Faults(), complete=False)
    return [(each.data, entries[each.index]) for each in made]


def _files(job: Mapping[str, Any]) -> dict[str, str]:
    """The paths of the files of a job, by field."""
    split = job.get("key_split")
    found = {
        "job_path": job.get("job_path"),
        "key_split": split.get("policy") if isinstance(split, dict) else None,
    }
    if "sql" in job:
        from speck.schema.queries import queries_in

        found["sql"] = next(queries_in([job]), None)
    return {field: path for field, path in found.items() if isinstance(path, str)}


def _of_label(entry: Mapping[str, Any], field: str) -> Fault:
    right = "expected for_each: {site: [NAMES]}, or a path without ${each.site}"
    path = quoted(_files(entry).get(field, ""))
    message = f"{field} {path} depends on the sites of a label, which only the server knows ({right})"
    return Fault(message, job=str(entry.get("job_name")), field=field, line=line_of(entry, field))
