"""The command that checks a file as the server does, without a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speck.binder import installed
from speck.cli.options import (
    ERROR,
    default_sites,
    file_argument,
    inventory_option,
    json_option,
    roots_option,
)
from speck.cli.output import fault_data, fault_line, show_json, warn
from speck.cli.render.checks import fault_count
from speck.cli.terminal import err, out
from speck.cli.variables import read_composition, values, variables_options
from speck.cli.waiting import waiting
from speck.core.inventory import Inventory
from speck.errors import Fault, InvalidInput

if TYPE_CHECKING:
    from speck.schema.compositions import Loaded

_SITES, _JOBS = re.compile(rb"^sites\s*:", re.MULTILINE), re.compile(rb"^jobs\s*:", re.MULTILINE)


@click.command()
@file_argument
@inventory_option
@roots_option
@click.option("--strict", is_flag=True, help="Exit 1 on warnings too.")
@json_option
@variables_options
def validate(
    file: Path,
    inventory: Path | None,
    roots: tuple[Path, ...],
    strict: bool,
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Check a composition or a site inventory.  Lists all faults.

    No server, engine or broker is contacted: the check covers the file, the inventory and the job files.
    Exits 0 without faults, 1 otherwise.
    """
    summary, warnings, faults = "", tuple[Fault, ...](), tuple[Fault, ...]()
    inventory = inventory or default_sites()
    try:
        given = values(env_files, settings, file, inventory)
        with waiting(f"checking {file}"):
            summary, warnings = _read(file, inventory, roots, given)
    except InvalidInput as error:
        faults = error.faults
    valid = not faults and not (strict and warnings)
    _show(file, summary, list(map(fault_data, warnings)), list(map(fault_data, faults)), valid, as_json)
    raise SystemExit(0 if valid else ERROR)


def _read(
    file: Path, inventory: Path | None, roots: Sequence[Path], variables: Mapping[str, str]
) -> tuple[str, tuple[Fault, ...]]:
    """A summary of the file's contents, and its warnings."""
    from speck.schema.inventory import load_inventory
    from speck.schema.support import support_faults

    text = file.read_bytes()
    if _is_inventory(text):
        found = load_inventory(text, variables)
        if faults := list(support_faults(found, installed())):
            raise InvalidInput(faults, "inventory")
        brokers = f", brokers {', '.join(found.brokers)}" if found.brokers else ""
        return f"sites {', '.join(found.sites) or '(none)'}{brokers}", ()
    loaded = load(file, inventory, roots, variables)
    composition = loaded.composition
    movable = sum(job.movable for job in composition.jobs.values())
    placed = f" ({movable} of them placed by SpecK)" if movable else ""
    jobs = f"{', '.join(composition.jobs) or '(none)'}{placed}"
    return f"composition {composition.name}, jobs {jobs}", loaded.warnings


def load(file: Path, inventory: Path | None, roots: Sequence[Path], variables: Mapping[str, str]) -> Loaded:
    """The composition of a file, without a server.  Raises :class:`InvalidInput` with all faults."""
    from speck.schema.compositions import load_composition
    from speck.schema.inventory import read_inventory

    return load_composition(
        read_composition(file, variables),
        inventory=read_inventory(inventory, variables) if inventory else Inventory(),
        registry=installed(),
        root=(file.absolute().parent, *roots),
        default_name=file.stem,
    )


def _is_inventory(text: bytes) -> bool:
    """True if the text is a site inventory, valid YAML or not."""
    from speck.schema.yaml.parser import parse

    try:
        top = parse(text).value
    except InvalidInput:
        return _SITES.search(text) is not None and _JOBS.search(text) is None
    return isinstance(top, dict) and "sites" in top and "jobs" not in top


def _show(
    file: Path,
    summary: str,
    warnings: list[dict[str, Any]],
    faults: list[dict[str, Any]],
    valid: bool,
    as_json: bool,
) -> None:
    if as_json:
        data = {"file": str(file), "valid": valid, "holds": summary, "faults": faults, "warnings": warnings}
        show_json(data)
        return
    warn(warnings)
    for fault in faults:
        err.print(f"error: {fault_line(fault)}", style="red", markup=False)
    if not faults:
        out.print(f"{file}: {summary}, no faults", markup=False)
    else:
        err.print(f"{file}: {fault_count(len(faults))}", markup=False)
