"""A user's text is data in everything that is made of it: pictures, answers, metrics."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import requests

from speck.cli.draw import draw_image
from speck.core.inventory import Inventory
from testbed.benches.examples import job, one_site
from testbed.servers.rest import SOLO, RestServer

HOSTILE = [
    "<script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><img src=x onerror=alert(1)>",
    '" onload="alert(1)" x="',
    "' xlink:href='javascript:alert(1)' x='",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "<?xml-stylesheet href='//evil.example/x.css'?>",
    '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>&e;',
    r"$\frac{1}{$",
    "\u202egnp.exe",
]
_HARMLESS = {"svg", "g", "path", "defs", "style", "use", "rect", "clipPath", "metadata", "type"}
_RDF = {"RDF", "Work", "format", "creator", "Agent", "title"}


@pytest.mark.slow("draws by Matplotlib")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_picture_runs_nothing_and_fetches_nothing(tmp_path: Path, hostile: str) -> None:
    """Even if what every file is checked for on its way in (a job's name, a site's) came through."""
    jobs = [
        job(
            hostile,
            f"in/{hostile}",
            hostile,
            labels={hostile: hostile},
            arguments={"x": hostile},
            site=hostile,
        ),
        job(f"reader of {hostile}", hostile, f"out/{hostile}"),
    ]
    path = tmp_path / "picture.svg"
    draw_image(jobs, Inventory({hostile: one_site(hostile, "sc://e:15002", "tcp://e:1883")}), path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<!DOCTYPE") == 1  # matplotlib's own
    assert "<!ENTITY" not in text
    assert text.count("<?") == 1
    for element in ElementTree.fromstring(text).iter():  # noqa: S314 - what it holds is looked at above
        name = element.tag.rpartition("}")[2]
        assert name in _HARMLESS | _RDF, name
        for attribute, value in element.attrib.items():
            plain = attribute.rpartition("}")[2].lower()
            assert not plain.startswith("on"), attribute
            assert plain != "href" or value.startswith("#"), value
            assert "javascript:" not in value
        if name == "style":
            assert "url(" not in (element.text or "")
            assert "@import" not in (element.text or "")


def test_no_answer_is_a_document_that_a_browser_would_run(rest: RestServer) -> None:
    fields = SOLO | {
        "job_name": "a",
        "source_topic": HOSTILE[0],
        "sink_topic": HOSTILE[2],
        "labels": {each: each for each in HOSTILE},
        "arguments": {"x": HOSTILE[1]},
    }
    url = f"{rest.url}/jobs?composition=c&wait=60"
    made = requests.post(url, json=fields, params={"author": HOSTILE[0], "message": HOSTILE[3]}, timeout=120)
    assert made.json()["state"] == "succeeded", made.text
    wrong = requests.post(url, json=fields | {"job_name": HOSTILE[0], "engine": HOSTILE[2]}, timeout=120)
    asked = [
        requests.get(rest.url + path, timeout=120)
        for path in (
            *("/jobs", "/jobs/a", "/compositions/c", "/compositions/c/revisions/1", "/compositions/c/diff"),
            *("/events", "/metrics", "/sites", "/openapi.json", f"/{HOSTILE[0]}", f"/jobs/{HOSTILE[2]}"),
            f"/events?x={HOSTILE[0]}",
        )
    ]
    data = requests.get(f"{rest.url}/jobs/a", timeout=120).json()["job"]
    assert (data["labels"], data["sink_topic"]) == (fields["labels"], HOSTILE[2])
    for answer in [made, wrong, *asked]:
        kind = answer.headers["Content-Type"].partition(";")[0]
        assert kind in ("application/json", "application/problem+json", "text/plain"), answer.url
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        if kind != "text/plain":
            json.loads(answer.text)
