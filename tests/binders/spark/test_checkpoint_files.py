"""The files of a checkpoint that a query needs."""

from __future__ import annotations

from binders.spark.connect.checkpoint_files import needed
from binders.spark.query.options import same_storage

BATCHES = range(20)
LOGS = [f"{log}/{batch}" for log in ("offsets", "commits") for batch in BATCHES]
DELTAS = [f"state/0/0/{batch + 1}.delta" for batch in BATCHES]
OTHERS = [
    "metadata",
    "sources/0/mqtt-batches/7.batch",
    "state/0/_metadata/metadata",
    "state/0/0/_metadata/schema",
]


def test_of_the_logs_the_last_two_committed_batches_and_what_follows() -> None:
    found = needed([*OTHERS, *LOGS, "offsets/20", "offsets/9"])
    assert found == sorted([*OTHERS, "offsets/18", "offsets/19", "offsets/20", "commits/18", "commits/19"])


def test_of_a_query_that_committed_nothing_everything() -> None:
    assert needed(["metadata", "offsets/0", "state/0/0/1.delta"]) == [
        "metadata",
        "offsets/0",
        "state/0/0/1.delta",
    ]


def test_without_a_snapshot_the_state_needs_all_its_changes() -> None:
    assert needed([*LOGS, *DELTAS])[4:] == sorted(DELTAS)


def test_of_the_state_the_newest_snapshot_and_the_changes_since() -> None:
    snapshots = ["state/0/0/10.snapshot", "state/0/0/17.snapshot"]
    expected = [f"state/0/0/{version}.delta" for version in (18, 19, 20)]
    assert needed([*LOGS, *DELTAS, *snapshots])[4:] == ["state/0/0/17.snapshot", *expected]


def test_a_snapshot_of_a_batch_that_is_not_committed_is_not_what_the_state_begins_with() -> None:
    snapshots = ["state/0/0/18.snapshot", "state/0/0/21.snapshot"]
    uncommitted = ["offsets/20", "state/0/0/21.delta"]
    found = needed([*LOGS, *DELTAS, *snapshots, *uncommitted])
    assert [each for each in found if each.startswith("state")] == [
        "state/0/0/18.snapshot",
        "state/0/0/19.delta",
        "state/0/0/20.delta",
        "state/0/0/21.delta",
        "state/0/0/21.snapshot",
    ]


def test_each_partition_and_each_store_of_a_join_has_a_snapshot_of_its_own() -> None:
    stores = ["state/0/0/left-keyToNumValues", "state/0/0/right-keyToNumValues", "state/0/1", "state/1/0"]
    files = [f"{store}/{version}.delta" for store in stores for version in (1, 2, 3)]
    found = needed(["commits/2", *files, "state/0/1/2.snapshot"])
    gone = {"state/0/1/1.delta", "state/0/1/2.delta"}
    assert set(found) == {"commits/2", "state/0/1/2.snapshot", *files} - gone


def test_a_store_of_another_kind_goes_whole() -> None:
    files = ["state/0/0/SSTs/1-ab.sst", "state/0/0/3.zip", "state/0/0/4.changelog", "state/0/0/20_ab.zip"]
    assert needed(["commits/19", *files]) == sorted(["commits/19", *files])


def test_check_sums_half_written_files_and_claims_stay() -> None:
    files = [
        "offsets/.1.crc",
        "state/0/0/.2.delta.ab.tmp",
        "sources/0/mqtt-batches/.3.part",
        "speck-attempts/ab",
    ]
    assert needed(["metadata", *files]) == ["metadata"]


def test_which_places_are_taken_to_be_the_same_storage() -> None:
    assert same_storage("/var/lib/speck/a/1", "/var/lib/speck")
    assert same_storage("file:///var/lib/speck/a/1", "/var/lib/speck/")
    assert not same_storage("/var/lib/other/a/1", "/var/lib/speck")
    assert not same_storage("/var/lib/speck2/a/1", "/var/lib/speck")
    assert same_storage("hdfs://names:9000/a/1", "hdfs://names:9000/b")
    assert not same_storage("hdfs://names:9000/a/1", "hdfs://others:9000/a")
    assert not same_storage("hdfs://names:9000/a/1", "/a")
