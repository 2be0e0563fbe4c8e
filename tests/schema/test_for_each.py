"""``for_each``: one entry of a composition for each of several sites."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from speck.binder import installed
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.plan import Deployed, make_plan
from speck.errors import InvalidInput
from speck.schema import for_each
from speck.schema.compositions import Loaded, load_composition, load_job
from speck.schema.inventory import load_inventory
from speck.schema.yaml.variables import names_in, substitute
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

LABELS = {"A": ("edge", "north"), "B": ("edge",), "D": ()}
SITES = Inventory(
    {
        name: replace(
            one_site(name, f"sc://{name.lower()}:15002", f"tcp://{name.lower()}:1883"), labels=labels
        )
        for name, labels in LABELS.items()
    }
)
ONE = """\
jobs:
- job_name: clean-${each.site:lower}
  for_each: {site: [A, B, D]}
  source_topic: raw
  sink_topic: clean/${each.site}
  entry_class: work
  job_path: work.py
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    return tmp_path


def read(root: Path, text: str, format: str = "yaml") -> Loaded:
    return load_composition(
        text,
        inventory=SITES,
        registry=double_kinds(World()),
        root=root,
        default_name="test",
        format=format,
    )


def faults(root: Path, text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(root, text)
    return [str(fault) for fault in caught.value.faults]


def jobs(root: Path, text: str) -> dict[str, Job]:
    return dict(read(root, text).composition.jobs)


def test_a_job_for_each_site_runs_there(root: Path) -> None:
    found = jobs(root, ONE)
    assert [(name, job.site, job.spe_address, job.sink_topic) for name, job in found.items()] == [
        ("clean-a", "A", "sc://a:15002", "clean/A"),
        ("clean-b", "B", "sc://b:15002", "clean/B"),
        ("clean-d", "D", "sc://d:15002", "clean/D"),
    ]
    assert {job.template for job in found.values()} == {"clean-*"}


def test_json_is_unfolded_as_yaml_is(root: Path) -> None:
    text = json.dumps(yaml.safe_load(ONE))
    assert read(root, text, "json").composition == read(root, ONE).composition


def test_references_stand_in_any_text(root: Path) -> None:
    more = "  arguments: {here: '${each.site}!', number: 3}\n  labels: {of: '${each.site}'}\n"
    found = jobs(root, ONE + more + "  sink_broker: ${each.site}\n  spe_address: D\n")
    assert dict(found["clean-b"].arguments) == {"here": "B!", "number": 3}
    assert dict(found["clean-b"].labels) == {"of": "B"}
    assert found["clean-b"].sink_broker == "tcp://b:1883"
    assert (found["clean-b"].spe_address, found["clean-b"].site) == ("sc://d:15002", "D")
    assert found["clean-b"].source_broker == "tcp://b:1883"


@pytest.mark.parametrize(("label", "names"), [("edge", ["A", "B"]), ("north", ["A"])])
def test_sites_are_chosen_by_label(root: Path, label: str, names: list[str]) -> None:
    text = ONE.replace("{site: [A, B, D]}", f"{{sites: {{label: {label}}}}}")
    assert [job.site for job in jobs(root, text).values()] == names


def test_labels_come_from_the_inventory() -> None:
    text = "sites: {A: {spe_address: 'sc://a:1', broker_address: 'tcp://a:1', labels: [edge, north]}}"
    assert load_inventory(text).sites["A"].labels == ("edge", "north")


def test_variables_are_put_in_before(root: Path) -> None:
    text = ONE.replace("[A, B, D]", '["${FIRST}", "${SECOND:-D}"]')
    substituted = substitute(text, {"FIRST": "A", "each": "never"})
    assert "${each.site:lower}" in substituted
    assert list(jobs(root, substituted)) == ["clean-a", "clean-d"]
    assert names_in(text) == {"FIRST", "SECOND"}


def test_a_value_of_a_variable_is_no_reference(root: Path) -> None:
    text = substitute(ONE + "  arguments: {text: '${TEXT}'}\n", {"TEXT": "${each.site}"})
    assert dict(jobs(root, text)["clean-a"].arguments) == {"text": "${each.site}"}


@pytest.mark.parametrize("escaped", [r'"t/\x24{each.site}"', '"t/$\\\n    {each.site}"'])
def test_a_reference_written_with_escapes(root: Path, escaped: str) -> None:
    text = ONE.replace("clean-${each.site:lower}", r'"c-\x24{each.site}"').replace(
        "clean/${each.site}", escaped
    )
    assert [job.sink_topic for job in jobs(root, text).values()] == ["t/A", "t/B", "t/D"]


def test_a_literal_reference_is_escaped(root: Path) -> None:
    text = ONE + "  arguments: {text: '$${each.site} at ${each.site}'}\n"
    assert dict(jobs(root, text)["clean-a"].arguments) == {"text": "${each.site} at A"}


def test_a_job_that_speck_places_needs_no_site(root: Path) -> None:
    found = jobs(root, ONE + "  sites: [A, B]\n  engine: spark\n  source_broker: ${each.site}\n")
    assert [job.sites for job in found.values()] == [("A", "B")] * 3


def test_a_further_site_starts_one_job(root: Path) -> None:
    before = jobs(root, ONE.replace(", D]", "]"))
    plan = make_plan("test", 1, jobs(root, ONE), {name: Deployed(job) for name, job in before.items()})
    assert [(each.job.job_name, type(each).__name__) for each in plan.changes] == [("clean-d", "Start")]
    assert plan.counts()["keep"] == 2


def test_road_traffic_written_as_five_jobs_is_the_one_of_seventeen() -> None:
    sites = load_inventory((ROOT / "pipelines" / "sites.yaml").read_bytes())

    def deployed(path: Path) -> dict[str, Job]:
        text = path.read_bytes()
        loaded = load_composition(text, inventory=sites, registry=installed(), root=ROOT, default_name="road")
        return dict(loaded.composition.jobs)

    written = ROOT / "pipelines" / "road_traffic.yaml"
    assert len(yaml.safe_load(written.read_text())["jobs"]) == 5
    before, after = deployed(Path(__file__).parent / "road_traffic_unfolded.yaml"), deployed(written)
    plan = make_plan("road", 1, after, {name: Deployed(job) for name, job in before.items()})
    assert plan.counts() == {"start": 0, "stop": 0, "update": 0, "move": 0, "keep": 17}
    assert {change.field for each in plan.actions for change in each.changes} == {"template"}


# --- faults


@pytest.mark.parametrize(
    ("written", "slip", "fault"),
    [
        (
            "[A, B, D]",
            "[A, BB]",
            "line 3: {job}: for_each.site.1 'BB' is not a site of the inventory (did you mean 'B'?)",
        ),
        (
            "[A, B, D]",
            "[A, x]",
            "line 3: {job}: for_each.site.1 'x' is not a site of the inventory (known: A, B, D)",
        ),
        ("[A, B, D]", "[]", "line 3: {job}: for_each.site [] is empty (expected one name or more)"),
        ("[A, B, D]", "A", "line 3: {job}: for_each.site 'A' is text (expected a list of names)"),
        (
            "[A, B, D]",
            "[A, A]",
            "line 3: {job}: for_each.site ['A', 'A'] has 'A' twice (expected each name once)",
        ),
        ("[A, B, D]", "[A, 3]", "line 3: {job}: for_each.site.1 3 is a number, not text (put it in quotes)"),
        ("{site:", "{sit:", "line 3: {job}: unknown field 'for_each.sit' (did you mean 'site'?)"),
        (
            "{site: [A, B, D]}",
            "[A]",
            "line 3: {job}: for_each ['A'] is a list (expected site: [NAMES] or sites: {{label: NAME}})",
        ),
        (
            "{site: [A, B, D]}",
            "{}",
            "line 3: {job}: for_each is empty (expected site: [NAMES] or sites: {{label: NAME}})",
        ),
        (
            "[A, B, D]}",
            "[A], sites: {label: edge}}",
            "line 3: {job}: for_each has both 'site' and 'sites' "
            "(expected site: [NAMES] or sites: {{label: NAME}})",
        ),
        (
            "{site: [A, B, D]}",
            "{sites: {label: egde}}",
            "line 3: {job}: for_each.sites.label 'egde' is not the label of any site of the inventory "
            "(did you mean 'edge'?)",
        ),
        (
            "-${each.site:lower}",
            "",
            "line 2: job 'clean': job_name 'clean' would be the same for 3 jobs of for_each "
            "(expected ${{each.site}} in it)",
        ),
        (
            "${each.site:lower}",
            "${each.stie}",
            "line 2: job 'clean-${{each.stie}}': ${{each.stie}} is not known (did you mean ${{each.site}}?)",
        ),
        (
            "source_topic",
            "source_topics",
            "line 4: job 'clean-a': unknown field 'source_topics' (did you mean 'source_topic'?)",
        ),
    ],
)
def test_each_fault_has_its_line_and_is_told_once(root: Path, written: str, slip: str, fault: str) -> None:
    assert written in ONE
    found = faults(root, ONE.replace(written, slip, 1))
    assert fault.format(job="job 'clean-${each.site:lower}'") in found
    assert len(found) == 1


def test_a_fault_of_an_argument_with_the_site_in_its_name_has_its_line(root: Path) -> None:
    arguments = '  arguments:\n    n: 1\n    "limit_${each.site:lower}": 1.10\n'
    (root / "work.py").write_text(
        "def work(messages, n, limit_a=0, limit_b=0, limit_d=0):\n    return messages\n"
    )
    assert faults(root, ONE + arguments) == [
        "line 10: job 'clean-a': argument 'limit_a' of 'work' is 1.10, which YAML reads as 1.1 "
        '(expected "1.10" for the text, or 1.1 for the value)'
    ]
    text = ONE + arguments.replace("1.10", "1.5")
    assert dict(jobs(root, text)["clean-b"].arguments) == {"n": 1, "limit_b": 1.5}
    wrong = faults(root, ONE + arguments.replace("1.10", "[1]") + '  "${each.site}": 1\n')
    assert wrong[0].startswith("line 10: job 'clean-a': arguments.limit_a [1] is a list")
    assert wrong[1].startswith("line 11: job 'clean-a': unknown field 'A'")


def test_a_reference_outside_of_a_for_each_is_a_fault(root: Path) -> None:
    text = ONE.replace("  for_each: {site: [A, B, D]}\n", "  site: A\n").replace("-${each.site:lower}", "")
    assert faults(root, text) == [
        "line 5: ${each.site} is known only inside a job with 'for_each:' ($${each. is the text itself)"
    ]
    found = faults(root, "name: x-${each.site}\n" + ONE)
    assert any(each.startswith("line 1: ${each.site} is known only inside") for each in found)


def test_warnings_of_all_jobs_of_an_entry_are_one(root: Path) -> None:
    warnings = [str(each) for each in read(root, ONE).warnings]
    assert len(warnings) == 2
    assert warnings[0].endswith("(read by 2 more jobs)")  # one topic; the topics written differ
    assert warnings[1].endswith("; likewise 2 more jobs of its for_each")


def test_a_single_job_has_no_for_each(root: Path) -> None:
    data: dict[str, Any] = yaml.safe_load(ONE)["jobs"][0]
    with pytest.raises(InvalidInput, match="for_each does not fit a single job"):
        load_job(data, inventory=SITES, registry=double_kinds(World()), root=root)


def test_the_number_of_jobs_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_each, "MAX_JOBS", 2)
    assert faults(root, ONE) == [
        "line 3: job 'clean-${each.site:lower}': for_each makes more than 2 jobs of the composition "
        "(expected fewer sites or jobs)"
    ]
