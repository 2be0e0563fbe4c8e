"""Profiles in the store: small, complete, gone with their job, and part of every backup."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.job import is_load_alike, profile_fingerprint
from speck.placement.profile import FIXED, JobProfile, Known, LinkProfile, SiteProfile, Value
from speck.store import JobRecord, Store
from speck.store.maintenance.backup import archive, restore
from speck.store.maintenance.repair import check, repair
from speck.store.profiles import CutCorrection, MeasuredLink, decode_job_profile, encode_job_profile
from testbed.benches.jobs_by_hand import make_job
from tests.support.properties import property_test

NOW = 1_767_225_600.0
FORM = "0123456789abcdef"
NAMES = tuple(each.name for each in fields(JobProfile) if each.name != "busiest")

measured_values = st.builds(
    lambda value, age, count: Value(value, Known.MEASURED, NOW - age, count),
    st.floats(0, 1e15),
    st.integers(0, 7 * 86_400),
    st.integers(3, 36),
)


def measured(value: float) -> Value:
    return Value(value, Known.MEASURED, NOW, 6)


PROFILE = JobProfile(rate_in=measured(500), cost=measured(2.345e-5), busiest="count")
CORRECTION = CutCorrection({"cost": 1.25, "selectivity": 0.001}, NOW)
LINK = MeasuredLink(
    passive=LinkProfile(
        source="A", target="D", round_trip=measured(0.16), bandwidth=measured(2.5e5), at_least=True
    ),
    active=LinkProfile(source="A", target="D", bandwidth=measured(2.5e5)),
)
SITE = SiteProfile(name="A", speed=measured(0.5), cores=measured(4))


@property_test
@given(st.fixed_dictionaries(dict.fromkeys(NAMES, measured_values)), st.text(max_size=200))
def test_a_profile_is_read_as_it_was_written_in_at_most_440_bytes(
    values: dict[str, Value], busiest: str
) -> None:
    profile = JobProfile(**values, busiest=busiest)
    found = decode_job_profile(encode_job_profile(profile))
    assert len(encode_job_profile(replace(profile, busiest="a vertex with a long name " * 9))) <= 440
    for name, value in values.items():
        read = found.values()[name]
        assert read.value == pytest.approx(value.value, rel=1e-3)
        assert (read.until, read.count) == (value.until, value.count)


def test_only_measured_values_are_written() -> None:
    profile = replace(PROFILE, fixed=Value(FIXED, Known.ASSUMED), state=Value(7, Known.DECLARED))
    assert decode_job_profile(encode_job_profile(profile)) == PROFILE


def test_profiles_of_jobs_links_and_sites(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            transaction.put_job(JobRecord("a", "demo", 0))
            transaction.put_job_profile("a", FORM, PROFILE)
            transaction.put_cut_correction("a", FORM, CORRECTION)
            transaction.put_link("A", "D", LINK)
            transaction.put_site_profile(SITE)
        assert store.events() == []
    with Store(tmp_path / "store") as store:
        assert store.job_profiles() == {("a", FORM): PROFILE}
        assert store.cut_corrections() == {("a", FORM): CORRECTION}
        assert store.links() == {("A", "D"): LINK}
        assert store.site_profiles() == {"A": SITE}


def test_a_profile_goes_with_its_job_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            for name in ("a", "ab"):
                transaction.put_job(JobRecord(name, "demo", 0))
                transaction.put_job_profile(name, FORM, PROFILE)
                transaction.put_cut_correction(name, FORM, CORRECTION)
        with store.transaction() as transaction:
            transaction.delete_job("a")
        assert list(store.job_profiles()) == [("ab", FORM)]
        assert list(store.cut_corrections()) == [("ab", FORM)]


def test_backup_keeps_profiles(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            transaction.put_job_profile("a", FORM, PROFILE)
            transaction.put_link("A", "D", LINK)
            transaction.put_site_profile(SITE)
        pieces = b"".join(archive(store.records(), store.directory, NOW, "x"))
    restore(io.BytesIO(pieces), "backup", tmp_path / "again")
    with Store(tmp_path / "again") as store:
        assert store.job_profiles() == {("a", FORM): PROFILE}
        assert (store.links(), store.site_profiles()) == ({("A", "D"): LINK}, {"A": SITE})


def test_check_and_repair_of_a_profile_whose_job_is_not_known(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with Store(directory) as store:
        with store.transaction() as transaction:
            transaction.put_job_profile("a", FORM, PROFILE)
            transaction.put_link("A", "D", LINK)
            transaction.put_site_profile(SITE)
        (found,) = check(store.records(), directory)
        assert (found.what, found.message, found.remedy) == (
            "profile of job 'a'",
            "its job is not known",
            "forgotten",
        )
    repair(directory)
    with Store(directory) as store:
        assert check(store.records(), directory) == []
        assert store.job_profiles() == {}
        assert store.links() == {("A", "D"): LINK}


def test_check_and_repair_of_a_cut_correction_whose_job_is_not_known(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with Store(directory) as store:
        with store.transaction() as transaction:
            transaction.put_job(JobRecord("b", "demo", 0))
            transaction.put_cut_correction("a", FORM, CORRECTION)
            transaction.put_cut_correction("b", FORM, CORRECTION)
        whats = [each.what for each in check(store.records(), directory)]
        assert "profile of job 'a'" in whats
        assert "profile of job 'b'" not in whats
    repair(directory)
    with Store(directory) as store:
        assert ("a", FORM) not in store.cut_corrections()


def test_the_fingerprint_of_a_moved_job_stays() -> None:
    job = make_job("a")
    moved = make_job(
        "a", spe_address="sc://e2:1", source_broker="tcp://b2:1883", sink_broker="tcp://b2:1883", site="B"
    )
    assert profile_fingerprint(moved) == profile_fingerprint(job)
    assert is_load_alike(moved, job)
    for change in (
        {"job_path": "other.py"},
        {"arguments": {"x": 1}},
        {"trigger": "1 seconds"},
        {"query": {"program": "{}"}},
    ):
        assert profile_fingerprint(make_job("a", **change)) != profile_fingerprint(job)
        assert not is_load_alike(make_job("a", **change), job)
    one, true = (make_job("a", arguments={"x": value}) for value in (1, True))
    assert one == true
    assert not is_load_alike(one, true)
