"""The journal of an agent, on disk and at its coordinator."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from speck.agent.journal import Journal
from speck.core.runtime import Attempt
from speck.link.journal import MOST, JournalEntry, at_least, checked, number_in, site_time
from speck.link.look import LastLooks, LookMessage

ATTEMPT = Attempt(id="a" * 32, job_name="clean", number=3, session="s")


def entry(number: int, **fields: object) -> JournalEntry:
    values = {
        "at": 1_700_000_000.0,
        "job": "clean",
        "attempt": 3,
        "started": True,
        "text": "start 2",
        **fields,
    }
    return JournalEntry(number=number, **values)  # type: ignore[arg-type]


def test_a_journal_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.json", lambda: 5.0)
    name, _, number = first.mark.partition(":")
    assert (name != "", number) == (True, "0")
    first.add(ATTEMPT, "start 2: lost", started=True)
    second = Journal(tmp_path / "journal.json", lambda: 6.0)
    assert second.mark == f"{name}:1"
    second.add(ATTEMPT, "replaced", started=False)
    assert second.mark == f"{name}:{second.after(1)[0].number}"
    assert [(each.at, each.started) for each in second.after(0)] == [(5.0, True), (6.0, False)]
    assert [each.text for each in second.after(1)] == ["replaced"]


def test_a_journal_keeps_the_last_entries(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.json")
    for _ in range(3):
        journal.add(ATTEMPT, "x", started=True)
    journal._entries = [entry(number) for number in range(1, MOST + 1)]
    journal.add(ATTEMPT, "last", started=True)
    found = Journal(tmp_path / "journal.json").after(0)
    assert (len(found), found[0].number, found[-1].text) == (MOST, 2, "last")


@pytest.mark.parametrize("content", ["{", '{"format": 2}', '{"format": 1, "id": "x", "entries": [1]}', "[]"])
def test_a_journal_that_cannot_be_read_is_replaced_by_another(tmp_path: Path, content: str) -> None:
    path = tmp_path / "journal.json"
    path.write_text(content)
    journal = Journal(path)
    journal.add(ATTEMPT, "start 2", started=True)
    assert journal.mark.endswith(":1")
    assert json.loads(path.read_text())["entries"][0]["job"] == "clean"


def test_a_full_disk_leaves_the_journal_in_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "missing" / "journal.json")
    journal.add(ATTEMPT, "start 2", started=True)
    assert [each.text for each in journal.after(0)] == ["start 2"]


def test_no_number_of_an_entry_that_a_full_disk_did_not_take_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.json"
    killed = Journal(path)
    killed.add(ATTEMPT, "start 2", started=True)
    with monkeypatch.context() as patched:

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr("speck.agent.journal.replace_file", full)
        for run in (3, 4):
            killed.add(ATTEMPT, f"start {run}", started=True)
    read = number_in(killed.mark, killed.mark)
    next_one = Journal(path)
    assert number_in(killed.mark, next_one.mark) == read  # the same journal
    next_one.add(ATTEMPT, "start 5", started=True)
    assert [each.text for each in next_one.after(read)] == ["start 5"]


def test_what_was_read_is_counted_for_one_journal() -> None:
    assert number_in("", "x:3") == 0
    assert number_in("x:2", "x:3") == 2
    assert number_in("y:2", "x:3") == 0
    assert number_in("x:z", "x:3") == 0
    assert at_least("x:3", 5) == "x:5"
    assert at_least("x:3", 0) == "x:3"


def test_entries_of_a_hostile_site_are_bounded() -> None:
    given = [entry(2), entry(1), entry(3, text="\x1b[2J"), entry(4, job="a\nb"), entry(5, text="x" * 9000)]
    found = checked(given, 1)
    assert [(each.number, len(each.text)) for each in found] == [(2, 7), (5, 500)]
    assert len(checked([entry(number) for number in range(1, 1000)], 0)) == MOST
    assert site_time(entry(1, at=float("inf"))) == site_time(entry(1, at=1e300)) == "at no time"
    assert site_time(entry(1)) == "2023-11-14 22:13:20Z"


def test_a_mark_of_a_hostile_site_is_ignored() -> None:
    looks = LastLooks()
    looks.note(LookMessage(journal="x:1"))
    for mark in ("x" * 101, "x\n:2"):
        looks.note(LookMessage(journal=mark))
    assert looks.journal == "x:1"
