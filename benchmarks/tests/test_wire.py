"""The chain of jobs whose bytes are counted, and options that are refused."""

from __future__ import annotations

import sys

import pytest

from benchmarks.micro import wire


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_job_before_the_last_writes_to_the_broker_in_the_middle(hops: int) -> None:
    jobs = wire.chain(hops, "tcp://edge:1", "tcp://middle:1")
    names = [name for name, _, _ in jobs]
    assert len(set(names)) == hops + 1
    assert [sink for _, _, sink in jobs[:-1]] == [source for _, source, _ in jobs[1:]]
    assert jobs[0][1] == ("tcp://edge:1", "in")
    assert jobs[-1] == ("count", ("tcp://middle:1", "sensors/clean"), ("tcp://edge:1", "out"))
    assert [source[0] for _, source, _ in jobs[:-1]] == ["tcp://edge:1"] * hops


def test_a_number_of_hops_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wire", "--hops", "0"])
    with pytest.raises(SystemExit):
        wire.main()
    assert "--hops 0 is no number of hops (expected 1 or more)" in capsys.readouterr().err
