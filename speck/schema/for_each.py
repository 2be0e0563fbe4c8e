"""The block ``for_each`` of a job: one job for each of several sites, before jobs are read.

``${each.site}`` in any text of such a job is the name of its site, ``${each.site:lower}`` the same in small
letters, and ``$${each.`` a literal ``${each.``.  Variables (``${NAME}``) are put in before, so that they may
stand in a ``for_each`` too.  All that follows sees the jobs that were made, each with the lines of its entry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from marshmallow import fields

from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.suggestions import closest, did_you_mean
from speck.errors import Fault
from speck.schema.fault_report import (
    NO_SITES,
    SHOWN_LENGTH,
    FaultReport,
    Faults,
    kind_of_value,
    listed,
)
from speck.schema.fields import StrictSchema
from speck.schema.schemas import ForEachSchema, JobSchema
from speck.schema.validation import validate_fields
from speck.schema.yaml.lines import LinedDict, LinedList, line_of

FOR_EACH = "for_each"
MAX_JOBS = 100_000  # of a composition with a for_each
ANY_SITE = "*"  # in a template, in the place of the site

_START = "${each."
_SHORT = 200  # characters of a text that is searched sooner than looked up
_REFERENCE = re.compile(r"(?P<escaped>\$\$\{each\.)|\$\{each\.(?P<name>[^{}]*)\}|(?P<open>\$\{each\.)")
_VALUES: Mapping[str, Callable[[str], str]] = {"site": str, "site:lower": str.lower}
_FORMS = "expected site: [NAMES] or sites: {label: NAME}"
_PLACES = ("site", "sites")
_FIELDS = sorted(JobSchema().load_fields)


class _OnlyForEach(StrictSchema):
    for_each = fields.Nested(ForEachSchema)


@dataclass(frozen=True, slots=True)
class Entry:
    """The data of one job; ``index`` and ``line`` are those of its entry in the list of jobs.

    ``template`` is its name with :data:`ANY_SITE` in the place of the site; empty without a ``for_each``.
    """

    data: Any
    index: int
    line: int | None
    template: str = ""


def unfolded(
    document: Mapping[str, Any],
    inventory: Inventory,
    faults: Faults,
    *,
    may_refer: bool = True,
    complete: bool = True,
) -> list[Entry]:
    """The jobs of a document, one entry for each; adds the faults of its ``for_each`` blocks.

    ``may_refer`` is false for a document none of whose texts contains ``${``.  If the inventory is not
    ``complete``, names of sites are not looked up, and a label that no site has gives one job, at
    :data:`ANY_SITE`.
    """
    entries = document["jobs"]
    texts = _Texts(document if may_refer else {})
    made: list[Entry] = []
    for index, data in enumerate(entries):
        entry = Entry(data, index, line_of(entries, index))
        if isinstance(data, Mapping) and data.get(FOR_EACH) is not None:
            report = FaultReport(faults, data, job=_name(data, index))
            made += _jobs(entry, _sites(data, inventory, report, complete), texts, report)
            if len(made) > MAX_JOBS:
                message = (
                    f"makes more than {MAX_JOBS:,} jobs of the composition (expected fewer sites or jobs)"
                )
                report.add(FOR_EACH, message, shown="")
                return []
        elif texts.refer:
            if (key := _misspelt(data, texts)) is not None:
                FaultReport(faults, data, job=_name(data, index)).add_unknown((key,), _FIELDS)
                continue
            faults += _misplaced(data, entry.line, texts)
            made.append(replace(entry, data=texts.replaced(data, {})))
        else:
            made.append(entry)
    for key, value in document.items():
        if key != "jobs":
            faults += _misplaced(value, line_of(document, key), texts)
    return made


def _misspelt(data: Any, texts: _Texts) -> str | None:
    """The key of a job with references that is probably ``for_each``, misspelt."""
    if not isinstance(data, Mapping) or not any(texts.references(data, None)):
        return None
    return next((key for key in data if key not in _FIELDS and closest(key, _FIELDS) == FOR_EACH), None)


def _name(data: Mapping[str, Any], index: int) -> str:
    name = data.get("job_name")
    return name[:SHOWN_LENGTH] if isinstance(name, str) else f"jobs[{index}]"


def _jobs(entry: Entry, sites: tuple[str, ...], texts: _Texts, report: FaultReport) -> Iterator[Entry]:
    """An entry for each site; none if the block has a fault."""
    for line, name in texts.references(entry.data, entry.line):
        if name not in _VALUES:
            near = closest(name, _VALUES)
            right = f"did you mean ${{each.{near}}}?" if near else "expected ${each.site}"
            report.faults.append(Fault(f"${{each.{name}}} is not known ({right})", report.job, line=line))
    written = entry.data.get("job_name")
    if len(sites) > 1 and isinstance(written, str) and not any(texts.references(written, None)):
        report.add(
            "job_name", f"would be the same for {len(sites)} jobs of for_each (expected ${{each.site}} in it)"
        )
    if not report.sound:
        return
    template = str(texts.replaced(written, dict.fromkeys(_VALUES, ANY_SITE)))
    for site in sites:
        yield replace(entry, data=_job(entry.data, site, texts), template=template)


def _job(data: Mapping[str, Any], site: str, texts: _Texts) -> Mapping[str, Any]:
    """The data of the job at a site, where it also runs if its entry names no place."""
    values = {name: change(site) for name, change in _VALUES.items()}
    made = texts.replaced({**data, FOR_EACH: None}, values)
    if isinstance(data, LinedDict):
        made = texts.lined(data, made, values)
        made.lines = {"site": data.lines[FOR_EACH], **made.lines}
    del made[FOR_EACH]
    if all(data.get(name) is None for name in _PLACES):
        made["site"] = site
    return made  # type: ignore[no-any-return]


# --- the sites


def _sites(
    data: Mapping[str, Any], inventory: Inventory, report: FaultReport, complete: bool
) -> tuple[str, ...]:
    """The names of the sites of a ``for_each``; none if it has a fault."""
    if not isinstance(data[FOR_EACH], Mapping):
        report.add(FOR_EACH, f"is {kind_of_value(data[FOR_EACH])} ({_FORMS})")
        return ()
    found = validate_fields(_OnlyForEach(), {FOR_EACH: data[FOR_EACH]}, report)
    if not report.sound:
        return ()
    block = found[FOR_EACH]
    if len(block) != 1:
        has = "has both 'site' and 'sites'" if block else "is empty"
        report.add(FOR_EACH, f"{has} ({_FORMS})", shown="")
        return ()
    if "sites" in block:
        return _labelled(block["sites"]["label"], inventory, report, complete)
    return _named(block["site"], inventory, report, complete)


def _named(
    sites: Sequence[str], inventory: Inventory, report: FaultReport, complete: bool
) -> tuple[str, ...]:
    for index, name in enumerate(sites):
        if complete and name not in inventory.sites:
            right = _right(name, inventory.sites, NO_SITES)
            report.add((FOR_EACH, "site", index), f"is not a site of the inventory ({right})")
    return tuple(sites)


def _labelled(label: str, inventory: Inventory, report: FaultReport, complete: bool) -> tuple[str, ...]:
    sites = tuple(name for name, site in inventory.sites.items() if label in site.labels)
    if not sites and not complete:
        return (ANY_SITE,)
    if not sites:
        known = {each for site in inventory.sites.values() for each in site.labels}
        right = _right(label, known, "no site has one: expected 'labels: [NAME]' at sites")
        report.add((FOR_EACH, "sites", "label"), f"is not the label of any site of the inventory ({right})")
    return sites


def _right(name: str, known: Iterable[str], none: str) -> str:
    names = sorted(known)
    return did_you_mean(name, names, f"known: {listed(names, 20)}" if names else none)


# --- references


class _Texts:
    """The texts of a document, each searched for references once: YAML's aliases may repeat a long one."""

    def __init__(self, document: Any) -> None:
        self._with_references: set[int] = set()  # ids of texts, which the document holds
        seen = set[int]()
        waiting = [document]
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            inner = (*value, *value.values()) if isinstance(value, Mapping) else value
            for each in inner:
                if isinstance(each, str):
                    if (len(each) < _SHORT or id(each) not in seen) and _START in each:
                        self._with_references.add(id(each))
                    if len(each) >= _SHORT:
                        seen.add(id(each))
                elif isinstance(each, Mapping | list):
                    waiting.append(each)

    @property
    def refer(self) -> bool:
        """True if any text has a reference."""
        return bool(self._with_references)

    def replaced(self, value: Any, values: Mapping[str, str]) -> Any:
        """A value with its references replaced, those without a value unchanged; shares all that stays."""
        if not self._with_references:
            return value
        if isinstance(value, str):
            if id(value) not in self._with_references:
                return value
            return _REFERENCE.sub(
                lambda match: _START if match["escaped"] else values.get(match["name"], match[0]), value
            )
        if isinstance(value, dict):
            made = {self.replaced(key, values): self.replaced(each, values) for key, each in value.items()}
            return self.lined(value, made, values) if isinstance(value, LinedDict) else made
        if isinstance(value, list):
            items = [self.replaced(each, values) for each in value]
            return _lined_list(value, items) if isinstance(value, LinedList) else items
        return value

    def lined(self, data: LinedDict, made: Mapping[str, Any], values: Mapping[str, str]) -> LinedDict:
        """A mapping made of ``data`` with its lines and written texts, by the keys as they are now."""
        found = LinedDict(data.line)
        found.update(made)
        found.lines, found.written = data.lines, data.written
        if found.keys() != data.keys():
            names = {key: self.replaced(key, values) for key in data}
            found.lines = {names[key]: line for key, line in data.lines.items()}
            found.written = {names[key]: text for key, text in data.written.items()}
        return found

    def references(self, value: Any, line: int | None) -> Iterator[tuple[int | None, str]]:
        """Each reference in a value, by its line and name."""
        if not self._with_references:
            return
        if isinstance(value, str):
            if id(value) in self._with_references:
                for match in _REFERENCE.finditer(value):
                    if not match["escaped"]:
                        yield line, match["name"] or ""
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                yield from self.references(key, line_of(value, key))
                yield from self.references(inner, line_of(value, key) or line)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                yield from self.references(each, line_of(value, index) or line)


def _lined_list(value: LinedList, items: Iterable[Any]) -> LinedList:
    made = LinedList(value.line)
    made.extend(items)
    made.lines = value.lines
    return made


def _misplaced(value: Any, line: int | None, texts: _Texts) -> Iterator[Fault]:
    """A fault for each reference outside of a job with a ``for_each``."""
    for at, name in texts.references(value, line):
        message = (
            f"${{each.{name}}} is known only inside a job with 'for_each:' ($${{each. is the text itself)"
        )
        yield Fault(message, line=at)


# --- faults


def once(faults: Iterable[Fault], templates: Mapping[str, str]) -> list[Fault]:
    """The faults, of those that all jobs of a template have in one line the first with their number.

    ``templates`` are those of the jobs, by job name.  A job may have several faults in a line: the first ones
    of all jobs belong together, and so on.
    """
    groups: dict[Any, list[Fault]] = {}
    counts = Counter[tuple[str | int | None, ...]]()
    for number, fault in enumerate(faults):
        if template := templates.get(fault.job or "", ""):
            of_job = (fault.job, fault.line, fault.field)
            counts[of_job] += 1
            groups.setdefault((template, *of_job[1:], counts[of_job]), []).append(fault)
        else:
            groups[number] = [fault]
    return [_counted(first, len(more)) for first, *more in groups.values()]


def _counted(fault: Fault, more: int) -> Fault:
    jobs = "job" if more == 1 else "jobs"
    return (
        replace(fault, message=f"{fault.message}; likewise {more} more {jobs} of its for_each")
        if more
        else fault
    )


def with_template(job: Job, entry: Entry) -> Job:
    """The job (or a part of its split) that was made from an entry, with its template."""
    if not entry.template:
        return job
    return replace(job, template=entry.template + job.job_name.removeprefix(str(entry.data["job_name"])))
