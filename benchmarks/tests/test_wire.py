"""The chain of jobs whose bytes are counted, and options that are refused."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from benchmarks.micro import memory, wire


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_job_before_the_last_writes_to_the_broker_in_the_middle(hops: int) -> None:
    jobs = wire.chain(hops, "tcp://edge:1", "tcp://middle:1")
    names = [name for name, _, _ in jobs]
    assert len(set(names)) == hops + 1
    assert [sink for _, _, sink in jobs[:-1]] == [source for _, source, _ in jobs[1:]]
    assert jobs[0][1] == ("tcp://edge:1", "in")
    assert jobs[-1] == ("count", ("tcp://middle:1", "sensors/clean"), ("tcp://edge:1", "out"))
    assert [source[0] for _, source, _ in jobs[:-1]] == ["tcp://edge:1"] * hops


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (wire, ["--hops", "0"], "--hops 0 is no number of hops (expected 1 or more)"),
        (memory, ["--full", "--engine", "flink"], "--full is for engines in one process (expected --engine"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    module: ModuleType,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    with pytest.raises(SystemExit):
        module.main()
    assert message in capsys.readouterr().err
