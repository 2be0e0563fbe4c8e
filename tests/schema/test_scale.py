"""``scale`` of an engine in the site inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.core.inventory import Predictor, Scale, Secret
from speck.errors import InvalidInput
from speck.schema.inventory import load_inventory, read_inventory
from speck.schema.json_schema import json_schema
from speck.schema.logins import inventory_warnings
from speck.schema.yaml.formatting import formatted


def inventory(scale: str, address: str = "http://10.0.0.1:8081/", more: str = "") -> str:
    return f"""\
sites:
  A:
    broker_address: tcp://10.0.0.1
    engines:
    - spe_address: {address}
      {more}
      scale: {scale}
"""


def scale(text: str) -> Scale:
    found = load_inventory(inventory(text)).sites["A"].engines[0].scale
    assert found is not None
    return found


def test_every_field() -> None:
    assert scale(
        '{min: 0, max: 4, cores: 2, slots: 8, memory: 1 GiB, url: "https://10.0.0.9/workers", '
        'token: "${HOOK}", idle: 2 minutes, predictor: {steep: 20/s, rise: 60/min, waiting: 7, fall: 1/s, '
        "pause: 9 s}}"
    ) == Scale(
        least=0,
        most=4,
        cores=2.0,
        slots=8,
        memory=1 << 30,
        url="https://10.0.0.9/workers",
        token=Secret("${HOOK}"),
        idle=120.0,
        predictor=Predictor(steep=20.0, rise=1.0, waiting=7, fall=1.0, pause=9.0),
    )


def test_defaults_are_the_published_ones() -> None:
    found = scale('{max: 2, cores: 0.5, command: [/bin/worker, "--site={site}", "{count}"]}')
    assert found == Scale(least=1, most=2, cores=0.5, command=("/bin/worker", "--site={site}", "{count}"))
    assert found.idle == 60.0
    assert found.predictor == Predictor(steep=10.0, rise=5.0, waiting=100, fall=10.0, pause=5.0)
    assert not found.names_stopped
    assert scale('{max: 2, cores: 1, command: [/bin/worker, "{count}", "{stop}"]}').names_stopped


def test_an_engine_without_it_is_as_before() -> None:
    text = inventory("").replace("scale: ", "")
    assert load_inventory(text).sites["A"].engines[0].scale is None


def test_local_workers_are_in_the_directory_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(inventory("{max: 2, cores: 1, local: true}"), encoding="utf-8")
    found = read_inventory(path).sites["A"].engines[0].scale
    assert found is not None
    assert found.local == str(tmp_path)


def test_an_engine_among_the_fields_of_its_site() -> None:
    text = inventory("").split("    engines:")[0] + (
        "    spe_address: spark://10.0.0.1\n    cores: 8\n    scale: {max: 3, cores: 2, local: true}\n"
    )
    site = load_inventory(text).sites["A"]
    assert (site.cores, site.engines[0].scale) == (8, Scale(least=1, most=3, cores=2.0, local="."))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{max: 2, cores: 1}", "scale has no hook (expected one of command, url and local)"),
        ("{max: 2, cores: 1, local: false}", "expected one of command, url and local"),
        ("{cores: 1, local: true}", "max is missing"),
        ("{max: 2, local: true}", "cores is missing"),
        ("{max: 2, cores: 0, local: true}", "scale.cores 0 is not more than 0"),
        (
            "{min: 3, max: 2, cores: 1, local: true}",
            "scale.min 3 is more than max, 2 (expected min to be max or",
        ),
        ("{min: -1, max: 2, cores: 1, local: true}", "scale.min -1 is not a whole number from 0 to 10,000"),
        ("{min: true, max: 2, cores: 1, local: true}", "scale.min true is not a whole number from 0"),
        ("{max: 0, cores: 1, local: true}", "scale.max 0 allows no worker (expected 1 or more)"),
        ("{max: 2, cores: 1, local: yes please}", "is text (expected true or false)"),
        ("{max: 2, cores: 1, command: run me}", "is text (expected a list: a program and its arguments)"),
        ("{max: 2, cores: 1, command: []}", "has no program"),
        ("{max: 2, cores: 1, command: [run]}", "has no {count} (expected it as an argument"),
        (
            '{max: 2, cores: 1, command: [run, "{number}{count}"]}',
            "the unknown placeholder {number} (expected some",
        ),
        ("{max: 2, cores: 1, url: ftp://h/x}", "is not the URL of a hook (expected https://HOST:PORT/PATH"),
        ("{max: 2, cores: 1, url: http://me:you@h/x}", "contains a login (expected it in 'token')"),
        (
            '{max: 2, cores: 1, url: "https://h/x?site=a&api_key=s3cr3t"}',
            "'https://h/x' has the query 'api_key', a secret (expected it in 'token')",
        ),
        ('{max: 2, cores: 1, local: true, url: "http://h/"}', "conflicts with url (expected one of"),
        ('{max: 2, cores: 1, local: true, token: "${T}"}', "scale.token"),
        ("{max: 2, cores: 1, local: true, token: sesame}", "is not a reference to a secret"),
        ("{max: 2, cores: 1, local: true, idle: 60}", "has no unit (expected, for example, 5 minutes)"),
        ("{max: 2, cores: 1, local: true, idle: 0.1 s}", "is out of range (expected from 1 to 86,400 s)"),
        ("{max: 2, cores: 1, local: true, predictor: {rise: 11/s}}", "rise '11/s' is more than steep, 10/s"),
        (
            "{max: 2, cores: 1, local: true, predictor: {waits: 11}}",
            "unknown field 'engines.0.scale.predictor.waits'",
        ),
        (
            "{maxx: 2, max: 2, cores: 1, local: true}",
            "unknown field 'engines.0.scale.maxx' (did you mean 'max'?)",
        ),
        ("5", "scale 5 is a number (expected a mapping with "),
    ],
)
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(inventory(text))
    found = [each for each in caught.value.faults if fault in each.message]
    assert found, [each.message for each in caught.value.faults]
    assert all(each.message.startswith("site 'A': ") for each in found)
    assert all(each.line is not None and each.line >= 5 for each in found)
    assert all("sesame" not in each.message and "you@" not in each.message for each in found)


def test_what_the_workers_have_is_given_there() -> None:
    for more in ("slots: 4", "memory: 1 GiB", "cores: 3"):
        with pytest.raises(InvalidInput, match="conflicts with 'scale'"):
            load_inventory(inventory("{max: 2, cores: 1, local: true}", more=more))


def test_an_engine_without_workers() -> None:
    with pytest.raises(InvalidInput, match="Spark Connect, which has no workers"):
        load_inventory(inventory("{max: 2, cores: 1, local: true}", "sc://10.0.0.1"))


def test_the_schema_for_editors_and_the_format() -> None:
    fields = json_schema("inventory")["$defs"]["Scale"]
    assert fields["required"] == ["cores", "max"]
    assert {"min", "command", "url", "local", "predictor"} <= fields["properties"].keys()
    assert fields["properties"]["min"]["anyOf"][0]["minimum"] == 0
    text = inventory("{max: 2, cores: 1, local: true}  # two at most").replace("      \n", "").encode()
    assert formatted(text) == text


def test_the_token_of_a_hook_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    text = inventory('{max: 2, cores: 1, url: "http://10.0.0.9/w", token: "${HOOK}"}')
    assert inventory_warnings(load_inventory(text)) == [
        "site 'A': scale.token is ${HOOK}, an environment variable that is not set",
        "site 'A': scale.token is sent to http://10.0.0.9/w unencrypted (expected TLS, or a trusted network)",
    ]


@pytest.mark.parametrize(
    "name",
    ["key", "token", "apikey", "api-key", "access_token", "accessToken", "sig", "X-Amz-Signature", "PWD"],
)
def test_a_query_that_names_a_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(inventory(f'{{max: 2, cores: 1, url: "https://h/x?a=1&{name}=s3cr3t"}}'))
    assert "a secret (expected it in 'token')" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("query", ["", "?site=a", "?monkey=1&tokens=2&design=3", "?keyboard=x"])
def test_other_queries_are_accepted(query: str) -> None:
    load_inventory(inventory(f'{{max: 2, cores: 1, url: "https://h/x{query}"}}'))
