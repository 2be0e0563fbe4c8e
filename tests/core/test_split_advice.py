"""The advice on splits: a pure judgement of key shares, costs and the rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.split.advice import Form, SplitAdvice, SplitSample, advise_split

HOT = {"hot": 600, **{f"k{each}": 4 for each in range(100)}}
EVEN = {f"k{each}": 10 for each in range(100)}


def sample(keys: dict[str, int], **fields: float) -> SplitSample:
    values = {"messages": 1000, "groups": len(keys), "dropped": 0, "add_us": 100.0, "merge_us": 10.0}
    return SplitSample(keys=keys, **{**values, "state_bytes": 100.0, **fields})  # type: ignore[arg-type]


def brief(advice: SplitAdvice) -> tuple[bool, str, int | None, str | None]:
    return advice.hot, advice.form.value, advice.combiners, advice.partitioner


def test_a_hot_key_with_a_costly_add_is_split_over_as_many_sites_as_share_the_load() -> None:
    found = advise_split(sample(HOT), rate=25_000)
    assert brief(found) == (True, "sites", 4, "balanced")
    assert found.load == 2.5  # cores: 25,000 messages of 100 us
    assert found.reasons == (
        "key 'hot' has 60.0% of the rows of 101 keys: "
        "by hash, its worker has at least 2.4 times the mean of 4",
        "add takes 2.5 cores at 25,000 messages/s: 4 workers share it",
        "add costs 100 us a message, above the 40 us to take one in: sites are worth their messages",
    )


def test_a_hot_key_with_a_cheaper_add_is_split_within_one_job() -> None:
    found = advise_split(sample(HOT, add_us=20.0), rate=100_000)
    assert brief(found) == (True, "one job", 3, "shuffle")
    assert "below the 40 us to take one in at another site" in found.reasons[-1]


def test_within_one_job_sparse_keys_are_levelled_and_not_shuffled() -> None:
    many = {"hot": 50_000, **{f"k{each}": 1 for each in range(50_000)}}
    few_a_key, many_a_key = (
        sample(many, messages=100_000, add_us=20.0),
        sample(many, messages=100_000, add_us=0.3),
    )
    assert brief(advise_split(few_a_key, rate=100_000)) == (True, "one job", 3, "balanced")
    assert brief(advise_split(many_a_key, rate=10_000_000)) == (True, "one job", 5, "shuffle")


def test_a_message_of_many_rows_pays_at_a_site_though_a_row_is_cheap() -> None:
    batched = sample({key: 100 * rows for key, rows in HOT.items()}, add_us=2.0)
    assert batched.message_us == 200.0
    assert advise_split(batched, rate=20_000).form is Form.SITES


def test_a_call_of_add_that_costs_as_many_rows_is_levelled_with_them() -> None:
    assert "key_cost" not in advise_split(sample(HOT, key_rows=4.0), rate=25_000).reasons[-1]
    assert advise_split(sample(HOT, key_rows=31.4), rate=25_000).reasons[-1] == (
        "a call of add costs as much as 31 rows, whatever rows it has: "
        "options: {key_cost: 31} levels that too"
    )
    assert "{key_cost: 100000}" in advise_split(sample(HOT, key_rows=1e7), rate=25_000).reasons[-1]
    shuffled = advise_split(sample(HOT, key_rows=30.0, add_us=20.0), rate=100_000)
    assert shuffled.partitioner == "shuffle"
    assert not any("key_cost" in each for each in shuffled.reasons)


def test_states_beyond_the_memory_of_a_site_are_a_reason_for_sites() -> None:
    large = sample(HOT, add_us=20.0, state_bytes=4e6)
    assert advise_split(large, rate=100_000, slides=1).form is Form.ONE_JOB
    found = advise_split(large, rate=100_000, slides=3)
    assert found.form is Form.SITES
    assert found.reasons[-1] == "the states of a window have 1.1 GiB: sites share the memory"


@pytest.mark.parametrize(
    ("found", "rate", "reason"),
    [
        (sample(EVEN), 25_000, "groupBy by key already spreads such rows evenly"),
        (sample(EVEN), None, "groupBy by key already spreads such rows evenly"),
        (sample(HOT), 1_000, "add takes 0.1 cores at 1,000 messages/s: one task is enough"),
        (sample(HOT, add_us=0.1), None, "aggregated before the shuffle by Spark itself"),
    ],
)
def test_what_is_not_to_be_split(found: SplitSample, rate: float | None, reason: str) -> None:
    advice = advise_split(found, rate)
    assert (advice.form, advice.combiners, advice.partitioner) == (Form.UNSPLIT, None, None)
    assert any(reason in each for each in advice.reasons)


def test_a_cheap_add_is_split_where_one_task_is_not_enough() -> None:
    assert advise_split(sample(HOT, add_us=0.5), rate=5_000_000).form is Form.ONE_JOB


def test_without_a_rate_the_workers_of_the_job_decide_what_is_hot() -> None:
    keys = {f"k{each}": 1 for each in range(8)}
    assert not advise_split(sample(keys), workers=8).hot
    assert advise_split(sample(keys), workers=10).hot
    assert advise_split(sample(keys), workers=10).combiners == 10
    assert advise_split(sample(keys)).hot is False  # of 4


def test_the_combiners_are_no_more_than_a_split_may_have() -> None:
    found = advise_split(sample(HOT), rate=1e9)
    assert found.combiners == 1000
    assert "add takes 100,000 cores at 1e+09 messages/s" in found.reasons[1]


def test_the_busiest_key_of_equals_is_the_first_by_name() -> None:
    assert sample({"b": 2, "a": 2, "c": 1}).busiest == ("a", 0.4)


@given(
    keys=st.dictionaries(st.text(max_size=3), st.integers(1, 10**6), min_size=1, max_size=20),
    add_us=st.floats(1e-3, 1e6),
    rate=st.none() | st.floats(1e-3, 1e7),
    workers=st.none() | st.integers(1, 1000),
)
def test_every_sample_gets_advice_of_one_form(
    keys: dict[str, int], add_us: float, rate: float | None, workers: int | None
) -> None:
    found = advise_split(sample(keys, add_us=add_us), rate, workers)
    assert (found.form is Form.UNSPLIT) == (found.combiners is None) == (found.partitioner is None)
    assert found.reasons
    if not found.hot:
        assert found.form is Form.UNSPLIT
