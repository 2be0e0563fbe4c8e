"""The lines of curl in docs/rest.md, typed at a server over engines and brokers in memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed import ROOT
from testbed.servers.rest import RestServer, yaml_of
from tests.support.docs_blocks import blocks


def lines_of_curl() -> list[str]:
    (block,) = (each for each in blocks(ROOT / "docs" / "rest.md") if each.heading == "By curl")
    return block.text.splitlines()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_lines_of_curl(rest: RestServer, tmp_path: Path) -> None:
    (tmp_path / "hot.yaml").write_text("name: hot\n" + yaml_of("a t0 t1"))
    ready, planned, applied, jobs, revisions, deleted = (
        json.loads(
            subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env=os.environ | {"SPECK_URL": rest.url},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for line in lines_of_curl()
    )
    assert ready["status"] == "ok"
    assert [each["kind"] for each in planned["actions"]] == ["start"]
    assert applied["state"] == deleted["state"] == "succeeded"
    assert [each["job_name"] for each in jobs] == ["a"]
    assert [each["message"] for each in revisions] == ["first"]
