"""The JSON Schemas for editors, against the loaders that they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from speck.cli.init import starter_files
from speck.schema.inventory_schemas import InventorySchema
from speck.schema.json_schema import json_schema
from speck.schema.schemas import CompositionSchema, JobSchema

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "pipelines").rglob("*.yaml"))
VALID = {kind: jsonschema_rs.validator_for(json_schema(kind)) for kind in ("composition", "inventory")}


def faults(kind: str, text: str) -> list[str]:
    return [each.message for each in VALID[kind].iter_errors(yaml.safe_load(text.replace("[JOB", f"[{JOB}")))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_of_this_repository_are_valid(path: Path) -> None:
    text = path.read_text()
    assert faults("composition" if "\njobs:" in f"\n{text}" else "inventory", text) == []


def test_the_files_of_a_beginner_name_their_schemas_and_are_valid() -> None:
    written = {str(name): content.decode() for name, content in starter_files()}
    for name, kind in (("composition.yaml", "composition"), ("sites.yaml", "inventory")):
        line = written[name].splitlines()[0]
        assert line == f"# yaml-language-server: $schema=schemas/{kind}.schema.json"
        assert json.loads(written[f"schemas/{kind}.schema.json"]) == json_schema(kind)
        assert faults(kind, written[name]) == []


JOB = "{job_name: a, source_topic: t, sink_topic: u, entry_class: f, job_path: p.py"
AS_READ = [
    "jobs: [JOB, site: , parallelism: }]",
    "jobs: [JOB, parallelism: '${PARALLELISM:-2}', on_error: '${ON_ERROR:-fail}'}]",
    "jobs: [JOB, arguments: {limit: 1.5, window: 5 minutes, deep: true}, labels: {owner: me}}]",
    "jobs: [JOB, with: b, apart: [c, d], sites: [A, D], pin: true, expects: {rate: 500/s, bytes: 1 kB}}]",
    "jobs: [JOB, key_split: {combiners: [A, {site: D, weight: 4}], window: 10 s, reducer: D}}]",
    "jobs: [JOB, key_split: {combiners: 4, window: 10 s, options: {tolerance: 0.05}}}]",
    "jobs: [{job_name: a, sink_topic: u, sql: SELECT 1, format: csv}]",
    "{jobs: [], topics: {in/+: {as: t, schema: {n: bigint}, format: csv, event_time: n, watermark: 1 s}}}",
    "{jobs: [], sources: {in/+: readings, other: }, sinks: {out: {shared: true, description: all}}}",
    "{jobs: [], placement: {mode: off, weights: {latency: 0.7}, max_wan: 2 Mbit/s, utilisation: 70%}}",
]
NOT_READ = [
    "jobs: {}",
    "job: []",
    "jobs: [{job_name: a}]",
    "jobs: [JOB, sink_brokr: tcp://a}]",
    "jobs: [{job_name: a, sink_topic: u, job_path: p.py}]",
    "jobs: [JOB, parallelism: 0}]",
    "jobs: [JOB, parallelism: many}]",
    "jobs: [JOB, on_error: ignore}]",
    "jobs: [JOB, arguments: {deep: {er: 1}}}]",
    "jobs: [JOB, sites: [A, A]}]",
    "jobs: [JOB, pin: sometimes}]",
    "jobs: [JOB, code_hash: beef}]",
    "{jobs: [], placement: {mode: sometimes}}",
    "{jobs: [], sinks: {out: {shred: true}}}",
]


@pytest.mark.parametrize("text", AS_READ)
def test_a_document_that_is_read(text: str) -> None:
    assert faults("composition", text) == []


@pytest.mark.parametrize("text", NOT_READ)
def test_a_document_that_is_not_read(text: str) -> None:
    assert faults("composition", text) != []


def test_an_inventory_that_is_not_read() -> None:
    site = "spe_address: sc://a, broker_address: tcp://a"
    assert faults("inventory", f"sites: {{A: {{{site}, memory: 1 GiB, uplink: {{latency: 3 ms}}}}}}") == []
    assert faults("inventory", f"sites: {{A: {{{site}, uplnk: }}}}") != []
    assert faults("inventory", f"{{sites: {{A: {{{site}}}}}, links: [{{from: A}}]}}") != []


def test_every_field_that_a_file_may_have_is_there() -> None:
    def properties(data: dict[str, Any]) -> set[str]:
        return set(data["properties"])

    composition, inventory = json_schema("composition"), json_schema("inventory")
    assert properties(composition) == set(CompositionSchema().load_fields)
    assert properties(composition["$defs"]["Job"]) == set(JobSchema().load_fields)
    assert properties(inventory) == set(InventorySchema().load_fields)
