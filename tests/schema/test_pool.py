"""``pool`` of engines in the site inventory, and the jobs whose engine SpecK chooses there."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.core.inventory import Hook, Inventory
from speck.core.job import Job
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from testbed.benches.jobs_by_hand import write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

FIRST, SECOND, THIRD = (f"http://10.0.0.{number}:8081/" for number in (1, 2, 3))
SITE = "sites: {A: {broker_address: tcp://10.0.0.1, engines: [%s]}}"
BOTH = (
    f"{{spe_address: '{FIRST}', pool: small, cores: 2}}, {{spe_address: '{SECOND}', pool: small, cores: 1}}"
)


def inventory(engines: str) -> Inventory:
    return load_inventory(SITE % engines)


def job(known: Inventory, root: Path, place: str = "site: A") -> Job:
    text = (
        f"jobs: [{{job_name: j, source_topic: a, sink_topic: b, {place}, entry_class: work, "
        "job_path: jobs.py, engine: flink}]"
    )
    loaded = load_composition(
        text, inventory=known, registry=double_kinds(World()), root=(write_code(root),), default_name="c"
    )
    return loaded.composition.jobs["j"]


def test_the_engines_of_a_pool_in_their_order() -> None:
    known = inventory(f"{BOTH}, {{spe_address: '{THIRD}'}}")
    (pool,) = known.pools
    assert (pool.site, pool.name) == ("A", "small")
    assert [(each.spe_address, each.cores) for each in pool.engines] == [(FIRST, 2.0), (SECOND, 1.0)]
    assert known.pool_of(SECOND) is pool
    assert known.pool_of(THIRD) is None


@pytest.mark.parametrize(
    ("engines", "fault"),
    [
        (f"{{spe_address: '{FIRST}', pool: small}}", "cores is required by 'pool'"),
        (f"{{spe_address: '{FIRST}', pool: 'a b', cores: 1}}", "pool 'a b' is not a name"),
        (
            f"{{spe_address: '{FIRST}', pool: small, scale: {{max: 2, cores: 1, local: true}}}}",
            "pool 'small' conflicts with 'scale' (expected one of them",
        ),
        (
            f"{BOTH}, {{spe_address: 'spark://10.0.0.4:7077', pool: small, cores: 1}}",
            "pool 'small' has engines with spark:// and http:// (expected http:// as of",
        ),
    ],
)
def test_faults(engines: str, fault: str) -> None:
    with pytest.raises(InvalidInput) as error:
        inventory(engines)
    (found,) = error.value.faults
    assert fault in found.message
    assert found.line == 1


HOOKED = f"{{spe_address: '{FIRST}', pool: small, cores: 1, hook: %s}}"


def test_the_hook_of_an_engine() -> None:
    known = inventory(HOOKED % "{command: [/bin/engine, '{engine}', '{count}'], idle: 5 min}")
    (engine,) = known.sites["A"].engines
    assert engine.hook == Hook(command=("/bin/engine", "{engine}", "{count}"), idle=300.0)


@pytest.mark.parametrize(
    ("engines", "fault"),
    [
        (HOOKED % "{idle: 1 min}", "hook has no command and no url (expected one of command and url)"),
        (
            HOOKED % "{url: 'http://10.0.0.9/', command: [a, '{count}']}",
            "url 'http://10.0.0.9/' conflicts with command (expected one of command and url)",
        ),
        (HOOKED % "{command: [/bin/engine]}", "has no {count} (expected it as an argument: 1 to start the"),
        (HOOKED % "{command: [a, '{count}'], token: '${T}'}", "has no effect without url (expected both)"),
        (HOOKED % "{command: [a, '{count}'], idle: 0 s}", "idle '0 s' is"),
        (HOOKED % "{command: [a, '{count}'], local: true}", "local"),
        (
            f"{{spe_address: '{FIRST}', hook: {{command: [a, '{{count}}']}}}}",
            "hook is given without 'pool' (expected it at an engine of a pool; workers have 'scale')",
        ),
    ],
)
def test_faults_of_the_hook(engines: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T", "sesame")
    with pytest.raises(InvalidInput) as error:
        inventory(engines)
    (found,) = error.value.faults
    assert fault in found.message


def test_a_site_with_one_engine_has_no_pool() -> None:
    text = f"sites: {{A: {{broker_address: tcp://10.0.0.1, spe_address: '{FIRST}', pool: small, cores: 2}}}}"
    with pytest.raises(InvalidInput, match="pool 'small' is given without 'engines'"):
        load_inventory(text)


def test_an_engine_of_two_sites_is_in_no_pool() -> None:
    engine = f"{{spe_address: '{FIRST}', pool: small, cores: 2}}"
    other = f"\n  B: {{broker_address: tcp://10.0.0.2, engines: [{engine}]}}"
    text = f"sites:\n  A: {{broker_address: tcp://10.0.0.1, engines: [{BOTH}]}}{other}"
    with pytest.raises(InvalidInput, match="serves site 'A' too"):
        load_inventory(text)


def test_the_engine_of_a_job_of_the_site_is_chosen(tmp_path: Path) -> None:
    found = job(inventory(BOTH), tmp_path)
    assert (found.spe_address, found.placed, found.movable) == (FIRST, ("spe_address",), False)
    assert job(inventory(BOTH), tmp_path, "spe_address: A, source_broker: A, sink_broker: A").placed == (
        "spe_address",
    )
    named = job(inventory(BOTH), tmp_path, f"spe_address: '{SECOND}', site: A")
    assert (named.spe_address, named.placed) == (SECOND, ())


def test_engines_outside_of_the_pool_leave_it_open(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has several engines"):
        job(inventory(f"{BOTH}, {{spe_address: '{THIRD}'}}"), tmp_path)
    with pytest.raises(InvalidInput, match="has several engines"):
        job(inventory(f"{BOTH}, {{spe_address: '{THIRD}', pool: other, cores: 1}}"), tmp_path)
