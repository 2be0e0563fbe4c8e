"""``speck split advise``: its input, its errors, and what it prints."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from speck.binder import Registry, installed
from speck.cli import cli, render
from speck.cli.split import advice
from speck.cli.split.advice import advice_data, sample_lines
from speck.core.split.advice import SplitSample, advise_split
from speck.errors import InvalidInput
from testbed import ROOT

SAMPLE = SplitSample(
    messages=10,
    keys={"Aarhus": 40, **{f"t{each}": 2 for each in range(10)}},
    groups=20,
    dropped=3,
    add_us=60.0,
    merge_us=10.5,
    state_bytes=3200.0,
)
JOB = """
- job_name: {name}
  spe_address: {address}
  source_broker: tcp://127.0.0.1:1883
  source_topic: readings-{name}
  sink_broker: tcp://127.0.0.1:1883
  sink_topic: {name}
  job_path: {path}
  entry_class: {entry}
"""
SPLIT = """\
  key_split:
    combiners: [{spe_address: 'sc://h:1', weight: 2}, {spe_address: 'sc://h:2'}]
    window: 1 minute
"""


def job(name: str, entry: str = "SpeedPercentiles", code: str = "hot_towns.py") -> str:
    path = f"jars_and_apps/road_traffic/{code}"
    return JOB.format(name=name, address="sc://127.0.0.1:15002", path=path, entry=entry)


@pytest.fixture(name="composition")
def composition_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "towns.yaml"
    jobs = job("hot-towns") + SPLIT + job("plain") + job("clean", "clean", "jobs.py")
    path.write_text(f"name: towns\njobs:{jobs}", encoding="utf-8")
    (tmp_path / "lines").write_text("one\n\ntwo\n", encoding="utf-8")
    (tmp_path / "empty").touch()
    (tmp_path / "frames").write_bytes(b"ok\n\x08\xff\n")
    return path


def advise(composition: Path, name: str, *options: str, sample: str = "lines") -> tuple[int, str, str]:
    command = ["split", "advise", str(composition), "--job", name, "--root", str(ROOT)]
    found = CliRunner().invoke(
        cli, [*command, "--sample", str(composition.parent / sample), *options], standalone_mode=False
    )
    return found.exit_code, found.stdout, found.stderr if not found.exception else str(found.exception)


@pytest.mark.parametrize(
    ("name", "sample", "fault"),
    [
        ("hot-town", "lines", "has no job 'hot-town' (did you mean 'hot-towns'?)"),
        ("other", "lines", "has no job 'other' (it has hot-towns, plain, clean)"),
        (
            "clean",
            "lines",
            "entry_class 'clean' is a function (expected a class with the methods rows(messages)",
        ),
        ("hot-towns", "frames", "frames' is not UTF-8 text: byte 0xff in b'\\x08\\xff\\n' (expected"),
        ("hot-towns", "empty", "empty' is empty (expected messages of the job, one a line)"),
    ],
)
def test_what_cannot_be_advised_on_is_said_before_anything_starts(
    composition: Path, name: str, sample: str, fault: str
) -> None:
    code, out, error = advise(composition, name, sample=sample)
    assert code == 1
    assert out == ""
    assert fault in error


@pytest.mark.parametrize(
    ("name", "slide_us", "combiners"),
    [("hot-towns", 60_000_000, 2), ("hot-towns.combiner-0", 60_000_000, 2), ("plain", None, 4)],
)
def test_a_job_is_sampled_with_its_own_settings(
    composition: Path, name: str, slide_us: int | None, combiners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def sampled(*values: object) -> SplitSample:
        given.append(values)
        return SAMPLE

    kinds = [each for each in installed().engines if each.engine == "spark"]
    sampling = Registry(tuple(replace(each, sample_split=sampled) for each in kinds))
    monkeypatch.setattr(advice, "installed", lambda: sampling)
    code, out, _ = advise(composition, name, "--json")
    assert code == 0
    path = ROOT / "jars_and_apps" / "road_traffic" / "hot_towns.py"
    assert given == [(path, "SpeedPercentiles", {}, ["one", "two"], slide_us)]
    assert json.loads(out)["combiners"] == combiners


def test_advice_as_json_has_the_sample_and_the_reasons() -> None:
    found = advice_data("hot-towns", SAMPLE, advise_split(SAMPLE, 20_000), 20_000)
    assert (found["split"], found["hot"], found["form"]) == (True, True, "sites")
    assert (found["combiners"], found["partitioner"], found["load"]) == (11, "balanced", 7.2)
    assert found["sample"]["busiest"][0] == {"key": "Aarhus", "share": 0.6667}
    assert found["sample"]["keys"] == 11
    assert len(found["sample"]["busiest"]) == 5
    assert json.loads(json.dumps(found)) == {**found, "reasons": list(found["reasons"])}


@pytest.mark.parametrize(
    ("rate", "advised"),
    [(20_000.0, "hot-towns: split over 11 sites, by balanced"), (10.0, "hot-towns: do not split")],
)
def test_advice_in_words(tmp_path: Path, rate: float, advised: str) -> None:
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    for line in render.split_advice_lines(advice_data("hot-towns", SAMPLE, advise_split(SAMPLE, rate), rate)):
        console.print(line)
    text = console.export_text()
    console.file.close()
    assert advised in text
    assert "sample: 10 messages, 60 rows of 11 keys, 3 bad; add 60 us a row, merge 10.5 us" in text


def test_samples_are_plain_or_gzip(tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"one\r\ntwo\n\xc3\xa4\n"))
    assert sample_lines(path) == ["one", "two", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"]
    path.write_bytes(gzip.compress(b"one\n" * 1000)[:20])
    with pytest.raises(InvalidInput, match=r"sample '.*lines\.gz' cannot be read"):
        sample_lines(path)
