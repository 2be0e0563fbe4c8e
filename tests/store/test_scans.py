from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.errors import StoreDamaged
from speck.store import JobRecord, Store, kinds


def put(store: Store, *records: JobRecord) -> None:
    with store.transaction() as transaction:
        for each in records:
            transaction.put_job(each)


def test_records_that_stay_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode, seen = kinds.JOB.decode, list[str]()

    def noted(name: str, value: bytes) -> JobRecord:
        seen.append(name)
        return decode(name, value)

    monkeypatch.setattr(kinds, "JOB", replace(kinds.JOB, decode=noted))
    with Store(tmp_path / "store") as store:
        put(store, JobRecord("a", "one"), JobRecord("b", "one"), JobRecord("c", "one"))
        first = store.jobs()
        assert store.jobs() == first == [JobRecord(name, "one") for name in "abc"]
        assert seen == ["a", "b", "c"]
        put(store, JobRecord("b", "two"))
        with store.transaction() as transaction:
            transaction.delete_job("a")
        assert store.jobs() == [JobRecord("b", "two"), JobRecord("c", "one")]
        put(store, JobRecord("a", "one"))
        assert [each.name for each in store.jobs()] == ["a", "b", "c"]
        assert seen == ["a", "b", "c", "b", "a"]


def test_a_record_that_is_damaged_later_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store:
        put(store, JobRecord("a", "one"))
        store.jobs()
        monkeypatch.setattr(kinds, "JOB", replace(kinds.JOB, encode=lambda _: b"{"))
        put(store, JobRecord("a", "two"))
        with pytest.raises(StoreDamaged, match="job/a"):
            store.jobs()
