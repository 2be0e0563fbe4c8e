"""The code of a job: its file below the roots, its hash, its entry class, and the arguments that it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speck.binder import EngineKind, Parameter, Registry
from speck.core.job import Scalar
from speck.core.split import MOST_POLICY
from speck.schema.fault_report import FaultReport
from speck.schema.yaml.lines import written_in
from speck.schema.yaml.plain import canonical, in_quotes, is_same, number
from speck.store.artifacts import QUERY_RUNNERS, hash_of
from speck.store.jobfile import BadFile, content_hash, locate, open_located, type_fault

_KINDS: Mapping[type, str] = {bool: "true or false", float: "a number", int: "a whole number", str: "text"}


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that came with a document: its place here, and the SHA-256 of its content, in hexadecimal."""

    path: Path
    sha256: str


NOTHING_SENT: Mapping[str, SentFile] = MappingProxyType({})


class CodeChecker:
    """Checks the code of the jobs of one document; each file is read once, however many jobs use it."""

    def __init__(
        self, roots: tuple[Path, ...], registry: Registry, sent: Mapping[str, SentFile] = NOTHING_SENT
    ) -> None:
        self._roots = roots
        self._sent = sent
        self._registry = registry
        self.find = cache(self._find_code)
        self._fault = cache(_code_fault)
        self._parameters = cache(_parameters)
        self._type_fault = cache(type_fault)
        self._hash = cache(hash_of)

    def check(self, fields: Mapping[str, Any], kind: EngineKind, report: FaultReport) -> str:
        """Report the faults of a job's code for an engine; returns its SHA-256 in hexadecimal, or ``""``."""
        job_path, entry_class = fields.get("job_path"), fields.get("entry_class")
        if report.data.get("key_split") is not None and kind.aggregation is None:
            right = "expected an engine of Spark: key_split runs on Spark"
            report.add("key_split", f"does not fit engine {kind.engine!r} ({right})", shown="")
            return ""
        if job_path is None:
            return ""
        path, code_hash = self._file(job_path, kind.engine, report)
        if path is not None and entry_class is not None:
            self._check_entry(fields, kind, path, entry_class, report)
        return code_hash

    def check_file(self, fields: Mapping[str, Any], report: FaultReport) -> None:
        """Report a job's file that is missing, where the kind of engine is not known."""
        if (job_path := fields.get("job_path")) is not None:
            self._file(job_path, "", report)

    def _file(self, job_path: str, engine: str, report: FaultReport) -> tuple[Path | None, str]:
        """The path and the hash of a job's file; ``None`` and ``""`` with a fault, which is reported."""
        fault = self._type_fault(job_path, engine)
        path, hash_or_fault = self.find(job_path) if fault is None else (None, fault)
        if path is None:
            report.add("job_path", hash_or_fault)
            return None, ""
        return path, hash_or_fault

    def _check_entry(
        self, fields: Mapping[str, Any], kind: EngineKind, path: Path, entry_class: str, report: FaultReport
    ) -> None:
        if (fault := self._fault(kind, path, entry_class)) is not None:
            report.add_sentence("entry_class", fault)
            return
        if "key_split" in fields and kind.aggregation is not None:
            for fault in kind.aggregation(path, entry_class):
                report.add_sentence("entry_class", fault)
        parameters = self._parameters(kind, path, entry_class)
        invalid = "arguments" in report.data and "arguments" not in fields  # reported already
        if invalid:
            return
        given = report.data.get("arguments")
        misread = dict(_misread(entry_class, parameters, given)) if given else {}
        for name, fault in misread.items():
            report.add_sentence("arguments", fault, name)
        if parameters is not None:
            for fault in argument_faults(entry_class, parameters, fields.get("arguments", {}), misread):
                report.add_sentence("arguments", fault)

    def added_argument_faults(
        self, fields: Mapping[str, Any], engine: str, arguments: Mapping[str, Scalar], given: object = None
    ) -> list[str]:
        """The faults of arguments that a part of a job gets beside the job's own, as of sound code.

        ``given`` are the same as they are written.
        """
        kind = next((each for each in self._registry.engines if each.engine == engine), None)
        entry_class = fields.get("entry_class")
        path = self.find(fields["job_path"])[0] if "job_path" in fields else None
        if not arguments or kind is None or path is None or entry_class is None:
            return []
        if self._type_fault(fields["job_path"], engine) or self._fault(kind, path, entry_class) is not None:
            return []
        parameters = self._parameters(kind, path, entry_class)
        optional = [replace(each, needed=False) for each in parameters or ()]
        misread = dict(_misread(entry_class, parameters, given))
        if parameters is None:
            return list(misread.values())
        return [*misread.values(), *argument_faults(entry_class, optional, arguments, misread)]

    def query_runner(self, kind: EngineKind, report: FaultReport) -> dict[str, str]:
        """The code of a SQL job at an engine, as fields of the job; empty with a fault."""
        runner = kind.queries
        if runner is None:
            others = sorted({each.engine for each in self._registry.engines if each.queries is not None})
            right = (
                f"expected an engine of {' or '.join(others)}" if others else "no installed binder runs SQL"
            )
            report.add("sql", f"does not run on engine {kind.engine!r} ({right})", shown="")
            return {}
        if (found := self._hash(runner.path)) is None:
            report.add("sql", f"needs {runner.path}, which is missing (expected a complete SpecK)", shown="")
            return {}
        return {
            "job_path": f"{QUERY_RUNNERS}/{runner.path.name}",
            "entry_class": runner.entry_class,
            "code_hash": found,
        }

    def policy(self, path: str, engine: str) -> tuple[bytes, str]:
        """The content of the file of a trained policy below the roots, and its fault as a predicate."""
        try:
            sent = self._sent.get(path)
            with (
                sent.path.open("rb") if sent else open_located(locate(path, self._roots), self._roots) as file
            ):
                data = file.read(MOST_POLICY + 1)
        except (BadFile, OSError) as error:
            return b"", str(error)
        if len(data) > MOST_POLICY:
            return b"", f"is too large for a policy (at most {MOST_POLICY:,} bytes)"
        kinds = (each for each in self._registry.engines if each.engine == engine and each.policy_fault)
        kind = next(kinds, None)
        fault = None if kind is None or kind.policy_fault is None else kind.policy_fault(data)
        return data, fault or ""

    def _find_code(self, job_path: str) -> tuple[Path | None, str]:
        """The path of a file that was sent or is below the roots and its hash, or ``None`` and its fault."""
        if (sent := self._sent.get(job_path)) is not None:
            return sent.path, sent.sha256
        try:
            path = locate(job_path, self._roots)
            return path, content_hash(path, self._roots)
        except BadFile as error:
            return None, str(error)


def _code_fault(kind: EngineKind, path: Path, entry_class: str) -> str | None:
    return kind.check_code(path, entry_class)


def _parameters(kind: EngineKind, path: Path, entry_class: str) -> Sequence[Parameter] | None:
    return kind.parameters(path, entry_class) if kind.parameters is not None else None


def argument_faults(
    entry_class: str,
    parameters: Sequence[Parameter],
    arguments: Mapping[str, Scalar],
    misread: Collection[str] = (),
) -> Iterator[str]:
    """A sentence for each argument that is unknown, missing, or of another type than its parameter.

    The types of those that are ``misread`` are not looked at.  One that is missing since its name is misspelt
    is reported once.
    """
    known, meant = {each.name: each for each in parameters}, set[str]()
    for name in (each for each in arguments if each not in known):
        near = get_close_matches(name, known, n=1)
        meant.update(near)
        right = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
        yield f"{entry_class!r} takes no argument {name!r} ({right})"
    for name, parameter in known.items():
        if name not in arguments and parameter.needed and name not in meant:
            yield f"{entry_class!r} needs an argument {name!r} (expected arguments: {{{name}: ...}})"
        elif name in arguments and name not in misread and not _fits(arguments[name], parameter.types):
            expected = _KINDS[parameter.types[-1]]
            yield f"argument {name!r} of {entry_class!r} is {arguments[name]!r} (expected {expected})"


def _misread(
    entry_class: str, parameters: Sequence[Parameter] | None, given: object
) -> Iterator[tuple[str, str]]:
    """The name and the fault, a sentence, of each argument whose text YAML reads as another value.

    One is none if its parameter is annotated as such a value, and all programs read it so.
    """
    types = {each.name: each.types for each in parameters or ()}
    for name, text in written_in(given).items():
        value = given[name]  # type: ignore[index]  # written_in has its keys
        accepted = types.get(name, ())
        if accepted and _fits(value, accepted) and (isinstance(value, str) or is_same(text, value)):
            continue
        subject = f"argument {name!r} of {entry_class!r} is {text}, which YAML reads as "
        if isinstance(value, str):
            yield (
                name,
                f"{subject}text (expected {in_quotes(text)}, or {canonical(number(text))} for the number)",
            )
        elif str in accepted:
            yield name, f"{subject}{canonical(value)} (expected {in_quotes(text)})"
        else:
            right = f"{in_quotes(text)} for the text, or {canonical(value)} for the value"
            yield name, f"{subject}{canonical(value)} (expected {right})"


def _fits(value: Scalar, types: Sequence[type]) -> bool:
    # To Python True is an int; `true` where a number is expected is a mistake.
    return not types or (isinstance(value, tuple(types)) and (bool in types or not isinstance(value, bool)))
