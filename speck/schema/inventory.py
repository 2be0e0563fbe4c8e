"""Reads the site inventory: sites with their engines and broker, brokers of no site, and how to log in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Site, Uplink
from speck.errors import Fault, InvalidInput
from speck.schema.address import BadAddress, canonical, redacted
from speck.schema.fault_report import Report, kind_of_value
from speck.schema.faults import Faults, quoted
from speck.schema.fields import SecretReference, StrictSchema
from speck.schema.logins import LoginFault, broker_login_faults, engine_login_faults, job_login_faults
from speck.schema.schemas import (
    BrokerSchema,
    EngineSchema,
    InventorySchema,
    JobLoginSchema,
    LoginSchema,
    SiteSchema,
    check_name,
)
from speck.schema.validation import checked, in_order, mapping_or_refuse, refuse_shape, unknown_beside
from speck.schema.yaml.parser import MAX_BYTES, decode, line_of, parse
from speck.schema.yaml.variables import complete_inventory

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

_ENGINE_FIELDS = tuple(EngineSchema().load_fields)
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
}


def load_inventory(
    text: str | bytes, variables: Mapping[str, str] = NO_VARIABLES, *, max_bytes: int = MAX_BYTES
) -> Inventory:
    """Read a site inventory, YAML (or JSON), with these values for its variables, or else their defaults.

    Raises :class:`InvalidInput` with all faults; none repeats a secret.
    """
    written_out = complete_inventory(decode(text, max_bytes), variables, _SECRETS)
    document = parse(written_out, max_bytes=max_bytes)
    faults = document.faults
    data = mapping_or_refuse(document.value, "site inventory", "sites")
    report = Report(faults, data)
    unknown_beside(data, InventorySchema(), report)
    written = _named(data, "sites", "a mapping of names to sites", report)
    sites = [site for name in written if (site := _site(name, written, faults)) is not None]
    given = _named(data, "brokers", "a mapping of names to brokers", report) if data.get("brokers") else {}
    brokers = {name: broker for name in given if (broker := _broker(name, given, faults)) is not None}
    faults += _shared_engines(sites, written)
    faults += _shared_names(sites, given)
    faults += _shared_brokers([*((each.name, each) for each in sites), *brokers.items()], written, given)
    if faults:
        raise InvalidInput(in_order(faults), "inventory")
    return Inventory({site.name: site for site in sites}, brokers)


def _named(data: Mapping[str, Any], field: str, expected: str, report: Report) -> Mapping[str, Any]:
    written = data.get(field)
    if isinstance(written, Mapping):
        return written
    refuse_shape(report, field, expected)
    return {}


def _fields(
    kind: str, name: str, schema: StrictSchema, written: Mapping[str, Any], faults: Faults
) -> tuple[dict[str, Any], Report] | None:
    """The fields of one entry, and what reports their faults; ``None`` when it has no fields at all."""
    subject, field, data = f"{kind} {quoted(name)}: ", f"{kind}s", written[name]
    if not isinstance(data, Mapping):
        message = f"{subject}is {kind_of_value(data)} (expected a mapping)"
        faults.append(Fault(message, field=field, line=line_of(written, name)))
        return None
    report = Report(faults, data, subject=subject)
    if (fault := check_name(name)) is not None:
        faults.append(Fault(f"{subject}{fault}", field=field, value=name, line=line_of(written, name)))
    return checked(schema, data, report), report


def _site(name: str, written: Mapping[str, Any], faults: Faults) -> Site | None:
    found = _fields("site", name, SiteSchema(), written, faults)
    if found is None:
        return None
    fields, report = found
    engines = _engines(fields, report)
    made = _broker_fields(fields, report)
    return Site(**made, name=name, engines=engines) if report.sound else None


def _broker(name: str, written: Mapping[str, Any], faults: Faults) -> Broker | None:
    found = _fields("broker", name, BrokerSchema(), written, faults)
    if found is None:
        return None
    made = _broker_fields(*found)
    return Broker(**made) if found[1].sound else None


def _broker_fields(fields: Mapping[str, Any], report: Report) -> dict[str, Any]:
    made = _made(fields)
    made["broker_address"] = address = _address(("broker_address",), fields.get("broker_address"), report)
    _say((), "broker_login", broker_login_faults(address, made.get("broker_login", Login())), report)
    _say((), "job_login", job_login_faults(address, made.get("job_login", JobLogin())), report)
    return made


def _engines(fields: dict[str, Any], report: Report) -> tuple[Engine, ...]:
    """Takes the engines out of a site's fields, where a single one has its fields beside the others."""
    inline = {name: fields.pop(name) for name in _ENGINE_FIELDS if name in fields}
    listed = fields.pop("engines", None)
    if listed is None:
        if "spe_address" not in inline and report.data.get("spe_address") is None:
            report.add("spe_address", "is missing (expected an engine's address, or engines)", shown="")
        return (_engine((), inline, report),)
    for name in inline:
        report.add(name, "stands beside engines (expected it in one of them)", shown="")
    return tuple(_engine(("engines", index), dict(each), report) for index, each in enumerate(listed))


def _engine(path: tuple[str | int, ...], fields: dict[str, Any], report: Report) -> Engine:
    address = _address((*path, "spe_address"), fields.pop("spe_address", None), report)
    made = _made(fields)
    _say(path, "engine_login", engine_login_faults(address, made.get("engine_login", Login())), report)
    return Engine(**made, spe_address=address)


def _say(path: tuple[str | int, ...], login: str, faults: Iterable[LoginFault], report: Report) -> None:
    for name, predicate in faults:
        report.add((*path, login, name), predicate, shown="")


def _address(path: Sequence[str | int], value: str | None, report: Report) -> str:
    """The canonical address; of a field that is missing, which was reported, an empty one."""
    try:
        return canonical(value) if value is not None else ""
    except BadAddress as error:
        form = "sc://HOST:PORT or http://HOST:PORT" if path[-1] == "spe_address" else "tcp://HOST:PORT"
        report.add(path, f"{error} (expected {form})", shown=repr(redacted(str(value))))
        return ""


def _made(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _NESTED[name](**value) if name in _NESTED else value for name, value in fields.items()}


def _shared_engines(sites: Iterable[Site], written: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for site, address in ((each, engine.spe_address) for each in sites for engine in each.engines):
        if address in first:
            message = (
                f"site {site.name!r}: spe_address {address!r} is that of site {first[address]!r} too "
                "(expected each engine once)"
            )
            yield Fault(message, field="spe_address", value=address, line=line_of(written, site.name))
        first[address] = site.name


def _shared_names(sites: Iterable[Site], brokers: Mapping[str, Any]) -> Iterator[Fault]:
    for name in {site.name for site in sites} & brokers.keys():
        message = (
            f"broker {quoted(name)}: is the name of a site too (expected another: either stands for a broker)"
        )
        yield Fault(message, field="brokers", value=name, line=line_of(brokers, name))


def _shared_brokers(
    named: Iterable[tuple[str, Broker]], sites: Mapping[str, Any], brokers: Mapping[str, Any]
) -> Iterator[Fault]:
    """One broker may be named several times, and has one way to log in."""
    first: dict[str, tuple[str, Broker]] = {}
    for name, broker in named:
        earlier, other = first.setdefault(broker.broker_address, (name, broker))
        if (other.broker_login, other.job_login) != (broker.broker_login, broker.job_login):
            message = (
                f"{quoted(name)}: logs in to {broker.broker_address} in another way than {earlier!r} "
                "(expected the same broker_login and job_login wherever a broker is named)"
            )
            line = line_of(sites if name in sites else brokers, name)
            yield Fault(message, field="broker_login", line=line)
