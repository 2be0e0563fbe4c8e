"""Compositions and inventories that are no such thing: each is read, or refused in words, in bounded work.

A hundred texts are tried for each property, times ``SPECK_EXAMPLES``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as some

from speck import cli
from speck.core.inventory import Inventory
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.fault_report import MAX_FAULTS, fault_data
from speck.schema.inventory import load_inventory
from speck.schema.schemas import JobSchema, PlacementSchema
from testbed.benches.examples import PIPELINES
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer
from tests.support.properties import tries

fuzzed = tries(100, suppress_health_check=list(HealthCheck))
REGISTRY = double_kinds(World())
COMPOSITIONS = sorted(path for path in PIPELINES.glob("*.yaml") if not path.stem.startswith("sites"))
INVENTORIES = sorted(PIPELINES.glob("sites*.yaml"))
FIELDS = sorted(JobSchema().load_fields)
LONGEST_MESSAGE = 2000  # characters

Reader = Callable[[bytes], object]


def composition(text: bytes, format: str = "yaml") -> object:
    return load_composition(
        text, inventory=Inventory(), registry=REGISTRY, root=PIPELINES, default_name="it", format=format
    )


def composition_in_json(text: bytes) -> object:
    return composition(text, "json")


def read_or_refused(read: Reader, text: bytes) -> list[str]:
    """The messages of the faults that a text is refused for; any other error is a failure."""
    try:
        read(text)
    except InvalidInput as error:
        assert error.faults
        for fault in error.faults:
            check_words(str(fault))
            json.dumps(fault_data(fault), allow_nan=False)
        return [str(fault) for fault in error.faults]
    return []


def check_words(message: str) -> None:
    assert message.isprintable(), message
    assert len(message) <= LONGEST_MESSAGE
    assert "Traceback" not in message
    assert " object at 0x" not in message


# --- made up


ODD_SCALARS = [
    *(
        "~",
        "yes",
        "0x" + "f" * 99,
        "1:59:59",
        ".nan",
        "-.inf",
        "2021-02-31",
        "2021-01-01",
        "!!binary eA==",
        "=",
    ),
    *("!!python/object:os.system x", "&a x", "*a", "<<", "!!set {a}", "!!omap [a: 1]", "'\\0'", '"\\ud800"'),
    *(
        "[]",
        "{}",
        "- -",
        "? a",
        "|",
        ">-",
        "@x",
        "`x",
        "%x",
        "9" * 200,
        "1e999",
        "''",
        "'a\n b'",
        "😀",
        "\x85",
    ),
    '"\\e[2J"',
]
INSERTED = [
    *(each.encode() for each in ODD_SCALARS),
    *(
        b"\t",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\r",
        b"\n---\n",
        b"\n...\n",
        b"\xc2\x85",
    ),
    *(b": ", b"- ", b"  ", b"\n", b"#", b"{", b"[", b"'", b'"', b"<<: *a\n", b"&a ", b"*a", b"!!str "),
    b"x" * 70_000,
]


@some.composite
def mutated(draw: some.DrawFn, files: list[Path]) -> bytes:
    """A real file with pieces taken out, doubled, or put in."""
    text = draw(some.sampled_from([path.read_bytes() for path in files]))
    for _ in range(draw(some.integers(1, 4))):
        start = draw(some.integers(0, len(text)))
        end = min(len(text), start + draw(some.integers(0, 60)))
        piece = draw(some.sampled_from([b"", text[start:end] * 2, *INSERTED]) | some.binary(max_size=4))
        text = text[:start] + piece + text[end:]
    return text


@fuzzed
@given(mutated(COMPOSITIONS))
def test_mutations_of_the_compositions(text: bytes) -> None:
    read_or_refused(composition, text)


@fuzzed
@given(mutated(INVENTORIES))
def test_mutations_of_the_inventories(text: bytes) -> None:
    read_or_refused(load_inventory, text)


odd_values: Any = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.dates() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
odd_jobs = some.dictionaries(some.sampled_from(FIELDS) | some.text(max_size=4), odd_values, max_size=6)


@fuzzed
@given(some.fixed_dictionaries({"jobs": some.lists(odd_jobs | odd_values, max_size=3)}) | odd_values)
def test_odd_values_in_every_field(value: Any) -> None:
    read_or_refused(composition, yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass"))
    read_or_refused(composition_in_json, json.dumps(value, default=str).encode())


# Fields of movable jobs and of the block ``placement``, beside what makes a composition sound.

PLACES = ("site", "sites", "pin", "with", "apart", "expects", "source_broker", "sink_broker", "engine")
OPTIONS = sorted(PlacementSchema().load_fields)
SOUND = {"source_topic": "in", "sink_topic": "t", "entry_class": "clean"}
names = some.sampled_from(["a", "b", "A", "any", "in", "t", "+", "#", "1/s", "3 us", "0", "off"])
apt_values = names | some.lists(names, max_size=3) | odd_values
movable_jobs = some.dictionaries(some.sampled_from(PLACES), apt_values, max_size=5).flatmap(
    lambda places: some.fixed_dictionaries(
        {**{name: some.just(value) for name, value in SOUND.items()}, "job_name": names}
    ).map(lambda job: {**job, "job_path": "jobs.py", "site": "any", "engine": "spark", **places})
)
SITES = load_inventory(
    "sites:\n  A: {spe_address: 'sc://a', broker_address: 'tcp://a'}\n"
    "  B: {spe_address: 'sc://b', broker_address: 'tcp://b'}\n"
)


@fuzzed
@given(
    some.lists(movable_jobs, max_size=4),
    some.dictionaries(some.sampled_from([*OPTIONS, "x"]), apt_values, max_size=4) | odd_values,
)
def test_odd_values_of_placement(tmp_path_factory: pytest.TempPathFactory, jobs: Any, block: Any) -> None:
    root = tmp_path_factory.getbasetemp()
    (root / "jobs.py").write_text("def clean(messages): ...\n")

    def read(text: bytes) -> None:
        loaded = load_composition(text, inventory=SITES, registry=REGISTRY, root=root, default_name="it")
        for warning in loaded.warnings:
            check_words(str(warning))

    read_or_refused(read, yaml.safe_dump({"jobs": jobs, "placement": block}).encode("utf-8", "surrogatepass"))


LINKS = some.dictionaries(some.sampled_from(["from", "to", "bandwidth", "latency", "x"]), apt_values)


@fuzzed
@given(some.lists(LINKS | odd_values, max_size=3) | odd_values)
def test_odd_values_of_links(links: Any) -> None:
    sites = {name: {"spe_address": f"sc://{name}", "broker_address": f"tcp://{name}"} for name in "AB"}
    text = yaml.safe_dump({"sites": sites, "links": links}, allow_unicode=True)
    read_or_refused(load_inventory, text.encode("utf-8", "surrogatepass"))


JOBS = 2000


def movable(number: int, more: str) -> str:
    fields = "entry_class: clean, job_path: jobs.py, engine: spark, site: any"
    return f"- {{job_name: j{number}, {fields}, {more}}}\n"


def chained(number: int) -> str:
    before = f"source_topic: t{number - 1}" if number else "source_broker: A, source_topic: in"
    together = f", with: j{number - 1}" if number else ""
    return f"{before}, sink_topic: t{number}{together}"


@pytest.mark.slow("2,000 movable jobs in each composition")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (chained, None),
        (lambda n: "source_topic: '#', sink_topic: t", "the jobs form a cycle"),
        (lambda n: f"source_topic: '+/x', sink_topic: '{n}/x', sink_broker: B", "is written at broker"),
        (lambda n: f"source_topic: a{n}, sink_topic: b{n}", "stopped after"),
        (lambda n: f"{chained(n)}, apart: j{(n + 2) % JOBS}", "contradicts 'with'"),
        (
            lambda n: f"{chained(0)}, apart: [j{(n + 1) % JOBS}, j{(n + 2) % JOBS}]",
            "leaves no site for one of them",
        ),
    ],
)
def test_many_movable_jobs(tmp_path: Path, more: Callable[[int], str], said: str | None) -> None:
    """The square of their number would take minutes."""
    (tmp_path / "jobs.py").write_text("def clean(messages): ...\n")
    text = "jobs:\n" + "".join(movable(number, more(number)) for number in range(JOBS))

    def read(text: bytes) -> None:
        load_composition(text, inventory=SITES, registry=REGISTRY, root=tmp_path, default_name="it")

    messages = read_or_refused(read, text.encode())
    assert any(said in message for message in messages) if said else messages == []


SITE_FIELDS = (
    "spe_address",
    "broker_address",
    "memory",
    "uplink",
    "broker_login",
    "slots",
    "cores",
    "tier",
    "x",
)
odd_fields = some.sampled_from(SITE_FIELDS)
odd_sites = some.dictionaries(odd_fields, odd_values, max_size=5)


odd_inventories = some.dictionaries(some.text(max_size=4), odd_sites | odd_values)


@fuzzed
@given(some.fixed_dictionaries({"sites": odd_inventories}))
def test_odd_values_in_every_field_of_a_site(value: Any) -> None:
    read_or_refused(
        load_inventory, yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    )


# --- thought up: what takes more than its length would (a text may have 5 MB; a tenth of it shows a square)

MANY = 100_000
LAUGHS = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b"*a%d," % (n - 1) * 9) for n in range(1, 15)
)


@pytest.mark.slow("texts of megabytes")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: " + b"1:" * MANY + b"1", "a number has"),
        (b"a: " + b"9" * MANY, "a number has"),
        (b"a: 0x" + b"f" * MANY, "a number has"),
        (b"a: !!float " + b"1:" * MANY + b"1.0", "a number has"),
        (b"a: !!int '" + b"1:" * MANY + b"1'", "a number has"),
        (b"jobs:\n" + b"- {}\n" * MANY, f"stopped after {MAX_FAULTS:,} faults"),
        (b"jobs:\n" + b"- x\n" * MANY, f"stopped after {MAX_FAULTS:,} faults"),
        (b"a: 1\n" * MANY, f"stopped after {MAX_FAULTS:,} faults"),
        (b"1: 1\n" * MANY, f"stopped after {MAX_FAULTS:,} faults"),
        (b"jobs:\n- {" + b"".join(b"a%d: 1, " % n for n in range(30_000)) + b"}", "stopped after"),
        (b"jobs: []\n" + b"".join(b"a%d: 1\n" % n for n in range(30_000)), "stopped after"),
        (
            b"jobs:\n- arguments: {" + b"".join(b"a-%d: 1, " % n for n in range(30_000)) + b"}",
            "stopped after",
        ),
        (b"a: &s " + b"x" * (40 * MANY) + b"\njobs:\n" + b"- {source_topic: *s}\n" * 20_000, "is too long"),
        (b"jobs:\n- job_name: " + b"x" * (8 * MANY), "job_name"),
        (b"jobs:\n- {" + b"x" * 1000 + b": 1}", "unknown field"),
        (b"jobs:\n- ? " + b"x" * MANY + b"\n  : 1", "unknown field"),
        (b"jobs:\n- arguments:\n    ? " + b"x-" * MANY + b"\n    : 1", "has an invalid name"),
        (b'jobs:\n- labels:\n    ? "a\\e[2J"\n    : 1', "has an invalid name"),
        (b"jobs:\n- entry_class: " + b"a." * (2 * MANY), "is too long"),
        (b"jobs:\n- trigger: " + b"1" * (2 * MANY) + b" seconds", "is too long"),
        (b"jobs:\n- spe_address: http://" + b"a" * MANY, "is too long"),
        (b"[" * MANY, "nested too deeply"),
        (b"- " * MANY, "nested too deeply"),
        (b"{a: " * MANY, "nested too deeply"),
        (LAUGHS, "expand the document too far"),
        (
            b"a: &a {a: 1}\n" + b"".join(b"b%d: {<<: [%s]}\n" % (n, b"*a," * 100) for n in range(2000)),
            "expand the document too far",
        ),
        (b"a: &a [*a]", "is inside of it"),
        (b"# " + b"x" * (60 * MANY), "at most 5,242,880"),
        (b"\t" * MANY, "is empty"),
        (b"? " * MANY, ""),
        (b"'" + b"a\n" * MANY, "not valid YAML"),
        (b"a: |\n" + b" \n" * MANY, ""),
        (b"%TAG ! x\n" * 1000, "not valid YAML"),
        (b"--- a\n" * MANY, "a second document begins here"),
        (b"&a " * 1000 + b"x", "not valid YAML"),
    ],
    ids=lambda value: value[:20].decode() if isinstance(value, bytes) else None,
)
def test_texts_that_blow_up(text: bytes, said: str) -> None:
    messages = read_or_refused(composition, text)
    assert any(said in message for message in messages), messages[:3]
    assert len(messages) <= MAX_FAULTS + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"jobs": [' + b"{}," * MANY + b"{}]}", "stopped after"),
        (b"{" + b'"a":1,' * 75_000 + b'"a":1}', "stopped after"),
        (b"[" * MANY, "nested too deeply"),
        (b'{"a":' * MANY, "nested too deeply"),
        (b'{"jobs": [{"parallelism": ' + b"9" * 4000 + b"}]}", "is not a whole number"),
        (b'{"jobs": [{"parallelism": 1e400}]}', "is not a whole number"),
    ],
    ids=lambda value: value[:20].decode() if isinstance(value, bytes) else None,
)
def test_json_that_blows_up(text: bytes, said: str) -> None:
    messages = read_or_refused(composition_in_json, text)
    assert any(said in message for message in messages), messages[:3]


# --- through the command line


HOSTILE_FILES: list[tuple[bytes, str]] = [
    (b"\0", "not valid YAML"),
    (b"\xff\xfe", "not UTF-8"),
    (b"\xed\xa0\x80", "not UTF-8"),
    (b"jobs: {", "not valid YAML"),
    (b"jobs:\n" + b"- {}\n" * 5_000, "stopped after"),
    (b"# " + b"x" * 6_000_000, "the body is too large (at most 5,242,880 bytes are accepted)"),
    (b"# " + b"x" * 60_000_000, "5,242,880 bytes"),
    (b'jobs:\n- job_name: "\\e[2J"', "is not a name"),
    (b"name: a/b\njobs: []", "name 'a/b' is not a name"),
]


@pytest.mark.slow("files of up to 60 MB")
def test_plan_says_what_is_wrong_with_a_file(
    rest: RestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, said in HOSTILE_FILES:
        (tmp_path / "it.yaml").write_bytes(text)
        monkeypatch.setattr(sys, "argv", ["speck", "--server", rest.url, "plan", str(tmp_path / "it.yaml")])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        assert (ended.value.code, captured.out) == (1, "")
        assert said in captured.err
        for line in captured.err.splitlines():
            assert line.startswith("error: ")
            check_words(line)
