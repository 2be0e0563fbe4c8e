"""Requests made up from the OpenAPI document, right and wrong, each answer held against it.

Four requests are tried for each route (and as many sequences of requests) in each phase, times
``SPECK_EXAMPLES``; ``SPECK_FUZZ_SEED`` is where the chance begins.  The output of a failure names the seed
and the requests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.servers.rest import rest_server
from tests.support.properties import SHARE

EXAMPLES = str(max(1, round(4 * SHARE)))
SEED = os.environ.get("SPECK_FUZZ_SEED", "1")
SETTINGS = Path(__file__).parent / "schemathesis.toml"


@pytest.mark.slow("hundreds of made-up requests")
def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        code = rest.root / "jars_and_apps" / "test-1.jar"  # that of the documented example
        code.parent.mkdir()
        code.write_bytes(b"")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run"),
                *(f"{rest.url}/openapi.json", "--checks", "all", "--continue-on-failure"),
                # A site may be named "check": /sites/check then has the methods of /sites/{name} too.
                *("--exclude-checks", "allow_header_conformance"),
                *("--max-examples", EXAMPLES, "--seed", SEED, "--suppress-health-check", "all"),
                *("--request-timeout", "120", "--exclude-path", "/live"),  # that one has no end
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout
    assert "Stateful (in" in done.stdout  # no phase was left out
