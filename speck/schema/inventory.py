"""The site inventory: sites with their engines and broker, brokers of no site, and logins."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speck.core.inventory import Broker, Engine, Hook, Inventory, JobLogin, Link, Login, Site, Uplink
from speck.core.placement import ANY
from speck.core.suggestions import did_you_mean
from speck.errors import Fault, InvalidInput
from speck.schema.address import BadAddress, canonical, redacted
from speck.schema.fault_report import FaultReport, Faults, kind_of_value, quoted
from speck.schema.fields import SecretReference, StrictSchema
from speck.schema.inventory_schemas import (
    BrokerSchema,
    EngineSchema,
    InventorySchema,
    JobLoginSchema,
    LinkSchema,
    LoginSchema,
    SiteSchema,
)
from speck.schema.logins import LoginFault, broker_login_faults, engine_login_faults, job_login_faults
from speck.schema.pool import pool_faults
from speck.schema.scale import scale_faults, scale_of
from speck.schema.schemas import check_name
from speck.schema.validation import (
    by_line,
    refuse_other_file,
    report_unknown_fields,
    report_wrong_shape,
    require_mapping,
    validate_fields,
)
from speck.schema.yaml.lines import line_of
from speck.schema.yaml.parser import MAX_BYTES, decode, parse
from speck.schema.yaml.variables import expand_inventory

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

_COMPUTING = ("cores", "speed", "price")  # of an engine, or of the machines that all engines of a site share
_ENGINE_FIELDS = tuple(name for name in EngineSchema().load_fields if name not in _COMPUTING)
_SHARES = ("slots", "memory")  # of an engine that serves several sites, each may count a part
_SECRETS = frozenset(
    name
    for schema in (LoginSchema(), JobLoginSchema())
    for name, field in schema.load_fields.items()
    if isinstance(field, SecretReference)
)
_NESTED: Mapping[str, Callable[..., Any]] = {
    "uplink": Uplink,
    "engine_login": Login,
    "broker_login": Login,
    "job_login": JobLogin,
    "scale": lambda **given: scale_of(given),
    "hook": Hook,
}
_LOGINS = frozenset(("engine_login", "broker_login", "job_login"))
# Of an entry from a site that joins: a login would have the server read a file or a variable of its own, and
# ``scale`` and ``hook`` run a command; labels decide which jobs the site gets.
_OF_SERVER = _LOGINS | {"scale", "hook", "labels"}
_OF_WORKERS = ("slots", "memory", "cores")  # of the workers, where an engine scales


def load_inventory(
    text: str | bytes, variables: Mapping[str, str] = NO_VARIABLES, *, max_bytes: int = MAX_BYTES
) -> Inventory:
    """Load a site inventory from YAML (or JSON), with these values, or the defaults, of its variables.

    Raises :class:`InvalidInput` with all faults, none of which contains a secret.
    """
    expanded = expand_inventory(decode(text, max_bytes), variables, _SECRETS)
    document = parse(expanded, max_bytes=max_bytes)
    faults = document.faults
    data = require_mapping(document.value, "site inventory", "sites")
    refuse_other_file(data, "site inventory", "sites", ("composition", "jobs"))
    report = FaultReport(faults, data)
    report_unknown_fields(data, InventorySchema(), report)
    site_data = _entries(data, "sites", "a mapping of names to sites", report)
    sites = [site for name in site_data if (site := _site(name, site_data, faults)) is not None]
    broker_data: Mapping[str, Any] = {}
    if data.get("brokers") is not None:
        broker_data = _entries(data, "brokers", "a mapping of names to brokers", report)
    brokers = {
        name: broker for name in broker_data if (broker := _broker(name, broker_data, faults)) is not None
    }
    faults += _shared_engines(sites, site_data)
    faults += _shared_names(sites, broker_data)
    named = [*((site.name, site) for site in sites), *brokers.items()]
    faults += _shared_brokers(named, site_data, broker_data)
    faults += _same_for_jobs(named, site_data, broker_data)
    faults += _shared_agents(sites, brokers, site_data)
    # Without the names of all places, none in a link is known to be wrong.
    complete = site_data is data.get("sites") and not report.misspelt("brokers")
    complete &= broker_data is data.get("brokers") or data.get("brokers") is None
    places = {*site_data, *broker_data} if complete else None
    links = tuple(_links(data, places, faults)) if data.get("links") is not None else ()
    if faults:
        raise InvalidInput(by_line(faults), "inventory")
    return Inventory({site.name: site for site in sites}, brokers, links)


def read_inventory(path: Path, variables: Mapping[str, str] = NO_VARIABLES) -> Inventory:
    """The site inventory of a file.  Raises :class:`~speck.errors.InvalidInput`, which names the file.

    The directory of local workers is that of the file.
    """
    try:
        return _in_directory(load_inventory(path.read_bytes(), variables), path.absolute().parent)
    except OSError as error:
        message = f"site inventory {str(path)!r} cannot be read: {error.strerror}"
        raise InvalidInput([Fault(message)], "sites") from error
    except InvalidInput as error:
        faults = [replace(each, message=f"{each.message} ({path})") for each in error.faults]
        raise InvalidInput(faults, "sites") from error


def read_entry(path: Path, name: str, variables: Mapping[str, str] = NO_VARIABLES) -> Mapping[str, Any]:
    """The entry of a site in an inventory file, with references to secrets, as plain data.

    Raises :class:`~speck.errors.InvalidInput`.
    """
    known = read_inventory(path, variables).sites
    if name not in known:
        message = f"site {name!r} is not in {path} (known: {', '.join(sorted(known)) or 'none'})"
        raise InvalidInput([Fault(message)], "site")
    expanded = expand_inventory(decode(path.read_bytes(), MAX_BYTES), variables, _SECRETS)
    found: Mapping[str, Any] = json.loads(
        json.dumps(parse(expanded, max_bytes=MAX_BYTES).value["sites"][name])
    )
    return found


def without_logins(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of a site without its logins, which stay at the site."""
    found = {name: value for name, value in entry.items() if name not in _LOGINS}
    if isinstance(engines := found.get("engines"), list):
        found["engines"] = [without_logins(each) if isinstance(each, Mapping) else each for each in engines]
    return found


def check_joining(name: str, entry: Mapping[str, Any]) -> None:
    """Refuse an entry with fields that a site may not give itself.

    Raises :class:`~speck.errors.InvalidInput`.
    """
    engines = entry.get("engines")
    parts = [entry, *(engines if isinstance(engines, list) else ())]
    given = {field for each in parts if isinstance(each, Mapping) for field in each}
    if wrong := sorted(given & _OF_SERVER):
        right = "expected it in the server's inventory"
        message = f"site {name!r}: {wrong[0]} cannot be set by a site that joins ({right})"
        raise InvalidInput([Fault(message, field=wrong[0])], "site")


def with_site(inventory: Inventory, name: str, entry: Mapping[str, Any]) -> Inventory:
    """The inventory with a site as its agent described it, which replaces one of that name.

    ``entry`` is as in a file.  Raises :class:`~speck.errors.InvalidInput` with all faults.
    """
    text = json.dumps({"sites": {name: {**entry, "agent": True}}})
    site = load_inventory(text).sites[name]
    sites = {**inventory.sites, name: site}
    listed, brokers = list(sites.values()), inventory.brokers
    named = [*sites.items(), *brokers.items()]
    faults = [
        *_shared_engines(listed, {}),
        *_shared_names(listed, brokers),
        *_shared_brokers(named, {}, {}),
        *_same_for_jobs(named, {}, {}),
        *_shared_agents(listed, brokers, {}),
    ]
    if faults:
        raise InvalidInput(faults, "site")
    return Inventory(sites, brokers, inventory.links)


def _in_directory(inventory: Inventory, directory: Path) -> Inventory:
    def placed(engine: Engine) -> Engine:
        scale = engine.scale
        local = scale is not None and scale.local is not None
        return replace(engine, scale=replace(scale, local=str(directory))) if local else engine  # type: ignore[type-var]

    sites = {
        name: replace(site, engines=tuple(map(placed, site.engines)))
        for name, site in inventory.sites.items()
    }
    return replace(inventory, sites=sites)


def _entries(data: Mapping[str, Any], field: str, expected: str, report: FaultReport) -> Mapping[str, Any]:
    entries = data.get(field)
    if isinstance(entries, Mapping):
        return entries
    report_wrong_shape(report, field, expected)
    return {}


def _fields(
    kind: str, name: str, schema: StrictSchema, entries: Mapping[str, Any], faults: Faults
) -> tuple[dict[str, Any], FaultReport] | None:
    """The valid fields of one entry and the report of its faults; ``None`` if it is not a mapping."""
    subject, field, data = f"{kind} {quoted(name)}: ", f"{kind}s", entries[name]
    if not isinstance(data, Mapping):
        right = "'broker_address:'" if kind == "broker" else "'spe_address:' and 'broker_address:'"
        message = f"{subject}is {kind_of_value(data)} (expected a mapping with {right})"
        faults.append(Fault(message, field=field, line=line_of(entries, name)))
        return None
    report = FaultReport(faults, data, subject=subject)
    if (fault := check_name(name)) is not None:
        faults.append(Fault(f"{subject}{fault}", field=field, value=name, line=line_of(entries, name)))
    return validate_fields(schema, data, report), report


def _site(name: str, entries: Mapping[str, Any], faults: Faults) -> Site | None:
    found = _fields("site", name, SiteSchema(), entries, faults)
    if found is None:
        return None
    fields, report = found
    if name == ANY:
        message = "site 'any': has a reserved name (expected another: 'site: any' lets SpecK choose one)"
        faults.append(Fault(message, field="sites", value=name, line=line_of(entries, name)))
    engines = _engines(fields, report)
    values = _broker_values(fields, report)
    return Site(**values, name=name, engines=engines) if report.sound else None


def _broker(name: str, entries: Mapping[str, Any], faults: Faults) -> Broker | None:
    found = _fields("broker", name, BrokerSchema(), entries, faults)
    if found is None:
        return None
    fields, report = found
    values = _broker_values(fields, report)
    return Broker(**values) if report.sound else None


def _broker_values(fields: Mapping[str, Any], report: FaultReport) -> dict[str, Any]:
    values = _values(fields)
    values["broker_address"] = address = _address(("broker_address",), fields.get("broker_address"), report)
    of_jobs = address
    if fields.get("job_broker_address") is not None:
        of_jobs = _address(("job_broker_address",), fields["job_broker_address"], report)
        values["job_broker_address"] = None if of_jobs == address else of_jobs
    login, job_login = values.get("broker_login", Login()), values.get("job_login", JobLogin())
    _report_login((), "broker_login", broker_login_faults(address, login), report)
    _report_login((), "job_login", job_login_faults(of_jobs, job_login), report)
    return values


def _engines(fields: dict[str, Any], report: FaultReport) -> tuple[Engine, ...]:
    """The engines of a site, removed from its fields; a single engine's fields are among the site's own."""
    inline = {name: fields.pop(name) for name in _ENGINE_FIELDS if name in fields}
    listed = fields.pop("engines", None)
    if listed is None:
        given = any(report.data.get(name) is not None for name in ("spe_address", "engines"))
        given |= report.misspelt("engines")
        if "spe_address" not in inline and not given:
            report.add(
                "spe_address", "is missing (expected an engine's address, or a list 'engines')", shown=""
            )
        if "pool" in inline:
            report.add("pool", "is given without 'engines' (expected it at each engine of such a list)")
            del inline["pool"]
            inline.pop("hook", None)
        return (_engine((), inline, report),)
    for name in inline:
        report.add(name, "conflicts with 'engines' (expected it inside one of the engines)", shown="")
    for name in _COMPUTING:
        if name in fields and any(name in each for each in listed):
            report.add(name, "conflicts with that of an engine (expected it once)")
    found: list[Engine] = []
    for index, each in enumerate(listed):
        found.append(_engine(("engines", index), dict(each), report, found))
    return tuple(found)


def _engine(
    path: tuple[str | int, ...], fields: dict[str, Any], report: FaultReport, before: Sequence[Engine] = ()
) -> Engine:
    """The engine of these fields; ``before`` are those of its site that are listed earlier."""
    address = _address((*path, "spe_address"), fields.pop("spe_address", None), report)
    values = _values(fields)
    login = values.get("engine_login", Login())
    _report_login(path, "engine_login", engine_login_faults(address, login), report)
    engine = Engine(**values, spe_address=address)
    if engine.scale is not None:
        for name in (each for each in _OF_WORKERS if each in fields):
            report.add((*path, name), "conflicts with 'scale' (expected it there, for each worker)")
        for below, predicate in scale_faults(engine, engine.scale, fields["scale"], report.sound):
            report.add((*path, "scale", *below), predicate, shown=None if below else "")
    for below, predicate in pool_faults(engine, before, report.sound):
        report.add((*path, *below), predicate, shown="" if below[-1] in ("cores", "hook") else None)
    return engine


def _report_login(
    path: tuple[str | int, ...], login: str, faults: Iterable[LoginFault], report: FaultReport
) -> None:
    for name, predicate in faults:
        report.add((*path, login, name), predicate, shown="")


def _address(path: Sequence[str | int], value: str | None, report: FaultReport) -> str:
    """The canonical address; empty if it is invalid, or missing (which is reported elsewhere)."""
    try:
        return canonical(value) if value is not None else ""
    except BadAddress as error:
        form = "sc://HOST:PORT or http://HOST:PORT" if path[-1] == "spe_address" else "tcp://HOST:PORT"
        report.add(path, error.predicate(form), shown=repr(redacted(str(value))))
        return ""


def _values(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _NESTED[name](**value) if name in _NESTED else value for name, value in fields.items()}


def _links(data: Mapping[str, Any], places: Collection[str] | None, faults: Faults) -> Iterator[Link]:
    """The links between places, each once for each direction; ``places`` are their names, if known."""
    listed = data["links"]
    if not isinstance(listed, list):
        report_wrong_shape(FaultReport(faults, data), "links", "a list of links")
        return
    seen = set[tuple[str, str]]()
    for index, each in enumerate(listed):
        if not isinstance(each, Mapping):
            message = f"links[{index}] is {kind_of_value(each)} (expected a mapping with 'from:' and 'to:')"
            faults.append(Fault(message, field="links", line=line_of(listed, index)))
            continue
        report = FaultReport(faults, each, subject=f"links[{index}]: ")
        fields = validate_fields(LinkSchema(), each, report)
        _check_link(fields, places, seen, report)
        if report.sound:
            yield Link(**fields)


def _check_link(
    fields: Mapping[str, Any],
    places: Collection[str] | None,
    seen: set[tuple[str, str]],
    report: FaultReport,
) -> None:
    ends = fields.get("source"), fields.get("target")
    for name, place in zip(("from", "to"), ends, strict=True):
        if place is not None and places is not None and place not in places:
            right = did_you_mean(place, places, f"known: {', '.join(sorted(places))}")
            report.add(name, f"is not a site or broker of the inventory ({right})")
    if not report.sound:
        return
    if ends[0] == ends[1]:
        report.add("to", "is where the link begins (expected another place)")
    elif ends in seen:
        report.add("to", f"ends a link from {ends[0]!r} that is given before (expected it once)")
    elif fields.keys() <= {"source", "target"}:
        report.add("bandwidth", "is missing (expected bandwidth or latency, or both)", shown="")
    seen.add(ends)  # type: ignore[arg-type]  # both are text, as the report is sound


def _shared_engines(sites: Iterable[Site], entries: Mapping[str, Any]) -> Iterator[Fault]:
    """An engine may serve several sites, whose entries must agree on all but its computing power."""
    first: dict[str, tuple[Site, Engine]] = {}
    for site, engine in ((each, engine) for each in sites for engine in each.engines):
        address, line = engine.spe_address, line_of(entries, site.name)
        other, before = first.setdefault(address, (site, engine))
        if other is site and before is not engine:
            message = f"site {site.name!r}: spe_address {address!r} is given twice (expected it once)"
            yield Fault(message, field="spe_address", value=address, line=line)
        differing = [
            name
            for name in _ENGINE_FIELDS
            if getattr(engine, name) != getattr(before, name) and name not in _SHARES
        ]
        if other is not site and engine.pool is not None:
            message = (
                f"site {site.name!r}: pool {engine.pool!r} has {address}, which serves site {other.name!r} "
                "too (expected engines of one site in a pool)"
            )
            yield Fault(message, field="pool", value=engine.pool, line=line)
        for name in differing if other is not site else ():
            message = (
                f"site {site.name!r}: {name} of {address} differs from that of site {other.name!r} "
                "(expected the same at all sites that an engine serves)"
            )
            yield Fault(message, field=name, line=line)


def _shared_agents(
    sites: Sequence[Site], brokers: Mapping[str, Broker], entries: Mapping[str, Any]
) -> Iterator[Fault]:
    """An agent serves one site: no other entry may have one of its addresses."""
    users: dict[str, list[str]] = {}
    for site in sites:
        for address in (*(each.spe_address for each in site.engines), site.broker_address):
            users.setdefault(address, []).append(site.name)
    for name, broker in brokers.items():
        users.setdefault(broker.broker_address, []).append(name)
    for site in (each for each in sites if each.agent):
        for address in (*(each.spe_address for each in site.engines), site.broker_address):
            if others := [each for each in users[address] if each != site.name]:
                message = (
                    f"site {site.name!r}: {address} is reached through its agent, and {quoted(others[0])} "
                    "has the same address (expected a host name of the site's own, such as its machine's)"
                )
                yield Fault(message, field="agent", value=address, line=line_of(entries, site.name))


def _shared_names(sites: Iterable[Site], brokers: Mapping[str, Any]) -> Iterator[Fault]:
    for name in {site.name for site in sites} & brokers.keys():
        message = (
            f"broker {quoted(name)}: is also the name of a site "
            "(expected another name: jobs may name a broker by its site)"
        )
        yield Fault(message, field="brokers", value=name, line=line_of(brokers, name))


def _shared_brokers(
    named: Iterable[tuple[str, Broker]], sites: Mapping[str, Any], brokers: Mapping[str, Any]
) -> Iterator[Fault]:
    """A broker may have several entries, which must agree on its logins and on the bound of its sessions."""
    first: dict[str, tuple[str, Broker]] = {}
    for name, broker in named:
        earlier, other = first.setdefault(broker.broker_address, (name, broker))
        if (other.broker_login, other.job_login) != (broker.broker_login, broker.job_login):
            message = (
                f"{quoted(name)}: the logins to {broker.broker_address} differ from those of {earlier!r} "
                "(expected the same broker_login and job_login in all entries of a broker)"
            )
            line = line_of(sites if name in sites else brokers, name)
            yield Fault(message, field="broker_login", line=line)
        for field in ("max_queued_bytes", "job_broker_address"):
            value, first_value = getattr(broker, field), getattr(other, field)
            if value != first_value:
                message = (
                    f"{quoted(name)}: {field} {value} of {broker.broker_address} differs from the "
                    f"{first_value} of {earlier!r} (expected one value)"
                )
                line = line_of(sites if name in sites else brokers, name)
                yield Fault(message, field=field, line=line)


def _same_for_jobs(
    named: Iterable[tuple[str, Broker]], sites: Mapping[str, Any], brokers: Mapping[str, Any]
) -> Iterator[Fault]:
    """Jobs would take two brokers for one if both had the same address for them."""
    first: dict[str, tuple[str, Broker]] = {}
    for name, broker in named:
        earlier, other = first.setdefault(broker.address_of_jobs, (name, broker))
        if other.broker_address != broker.broker_address:
            message = (
                f"{quoted(name)}: its broker {broker.broker_address} has the same address for jobs as that "
                f"of {earlier!r}, {broker.address_of_jobs} (expected another job_broker_address)"
            )
            line = line_of(sites if name in sites else brokers, name)
            yield Fault(message, field="job_broker_address", line=line)
