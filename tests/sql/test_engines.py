"""SQL jobs on real engines: the same rows on Spark and on Flink as by the reference in Python."""

from __future__ import annotations

import json

import pytest

from speck.errors import InvalidInput
from speck.schema.queries import queries_of
from speck.sql.evaluate import Outcome, evaluate, evaluate_tables
from speck.sql.program import Program
from speck.testing.waiting import eventually
from tests.sql.on_engines import BUILT, PATIENCE, Bench
from tests.support.trials import trial, trials_run

pytestmark = [pytest.mark.engine, BUILT]

TOPICS = """
topics:
  sql/bid/+:
    as: bids
    format: csv
    schema:
      kind: string
      time: timestamp(ms) not null
      auction: bigint not null
      price: bigint
      rate: double
      note: string
    event_time: time
    watermark: 1 s
jobs:
"""
QUERIES_OF_TEST = {
    "q0": "SELECT auction, time, note FROM bids",
    "q2": "SELECT auction, price * 0.908 AS euros, SPLIT_PART(topic, '/', 3) AS site FROM bids "
    "WHERE MOD(auction, 3) = 1 AND (note LIKE 'a%' OR note IS NULL)",
    "counts": "SELECT window_start, window_end, auction, note, COUNT(*) AS n, SUM(price) AS total, "
    "MIN(note) AS first, MAX(rate) AS best, AVG(price) AS mean, COUNT(rate) AS rated "
    "FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '4' SECOND) "
    "GROUP BY window_start, window_end, auction, note HAVING COUNT(*) >= 1",
    "best": "SELECT window_end, auction, n FROM (SELECT window_start, window_end, auction, COUNT(*) AS n, "
    "RANK() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC, SUM(price)) AS place "
    "FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '4' SECOND) "
    "GROUP BY window_start, window_end, auction) WHERE place <= 2",
    "visits": "SELECT window_start, window_end, auction, COUNT(*) AS n, MAX(note) AS last "
    "FROM SESSION(bids, time, INTERVAL '1' SECOND) WHERE MOD(price, 2) = 0 "
    "GROUP BY window_start, window_end, auction",
    "noted": "SELECT window_end, note, COUNT(*) AS n FROM TUMBLE(bids, time, INTERVAL '3' SECOND) "
    "WHERE note LIKE 'a%' GROUP BY window_start, window_end, note",
    "all": "SELECT window_end, COUNT(*) FILTER (WHERE price > 3) AS n "
    "FROM TUMBLE(bids, time, INTERVAL '5' SECOND) GROUP BY window_start, window_end",
}
# What these do is in others too.
SIMPLER = ("q0", "noted")
RUN = {name: each for name, each in QUERIES_OF_TEST.items() if trials_run() or name not in SIMPLER}
END = "B,1750000000000,0,0,0,end"  # closes the windows before it, also those that leave it out


def composition(bench: Bench) -> str:
    jobs = [
        f"- {{job_name: {engine}-{name}, site: {site}, engine: {engine}, on_error: park, "
        f'park_topic: parked/{engine}/{name}, sink_topic: out/{engine}/{name}, sql: "{query}"}}'
        for engine, site in (("spark", "S"), ("flink", "F"))
        for name, query in RUN.items()
    ]
    return f"name: sql-test\n{TOPICS}{chr(10).join(jobs)}\n"


def lines() -> list[str]:
    """Rows next to 1970, of whose windows some begin before it, and others."""
    early = [f"B,{500 * each},{each % 2},{each},," for each in range(4)]
    notes = ["", "abc", "a\u00e4\U0001f600", '"x, ""y"""', "b"]
    return early + [
        f"B,{1_700_000_000_000 + 250 * each},{each % 4},{each * 7 % 11 if each % 5 else ''},"
        f"{each / 7 if each % 3 else ''},{notes[each % 5]}"
        for each in range(60)
    ]


FUTURE = "B,4000000000000,0,0,0,"  # all rows after it would be late
BAD = ["B,x,1,1,1,", "B,5,1", 'B,1700000000000,1,1,1,"x', "B,1700000000000,9223372036854775808,1,1,z"]


def test_both_engines_give_the_rows_of_the_reference_and_park_what_does_not_fit(bench: Bench) -> None:
    programs = bench.apply(composition(bench))
    values = [*lines()[:30], *BAD, *lines()[30:], END]
    messages = [("sql/bid/a", value.encode()) for value in values]
    bench.mqtt_client.send("sql/bid/a", [*values[:20], FUTURE, *values[20:]])
    for name, program in programs.items():
        engine, _, query = name.partition("-")
        refused = [FUTURE] if program.stateful else []
        known = messages if program.stateful else [*messages, ("sql/bid/a", FUTURE.encode())]
        expected = reference(program, known)
        assert len(expected.messages) > 5 or query == "all"
        got = eventually(
            lambda topic=f"out/{engine}/{query}": sorted(bench.received(topic)),
            lambda found, expected=expected: len(found) >= len(expected.messages),
            PATIENCE,
        )
        assert got == sorted(expected.messages), name
        unparsable = [values[index] for index, _ in expected.unparsable]
        parked_count = len(unparsable + refused)
        parked = eventually(
            lambda topic=f"parked/{engine}/{query}": bench.received(topic),
            lambda found, count=parked_count: len(found) >= count,
            PATIENCE,
        )
        assert sorted(parked) == sorted(unparsable + refused), name


def reference(program: Program, messages: list[tuple[str, bytes]]) -> Outcome:
    """The results without the windows that the last message leaves open."""
    return evaluate(program, messages, end=False)


# --- queries with a cut

CUT_TOPICS = """
name: sql-cuts
topics:
  cut/bid/+:
    as: offers
    at: [S, G]
    schema:
      time: timestamp(ms) not null
      auction: bigint not null
      price: bigint
      rate: double
      note: string
    event_time: time
    watermark: 1 s
  cut/ask/+:
    as: asks
    at: S
    schema: {asked: timestamp(ms) not null, lot: bigint, most: bigint}
    event_time: asked
    watermark: 1 s
jobs:
"""
NEAR = (
    "SELECT a.lot AS lot, o.price AS price, EPOCH_MS(o.time) - EPOCH_MS(asked) AS later "
    "FROM asks AS a JOIN offers AS o ON lot = auction AND o.price >= a.most "
    "AND o.time BETWEEN asked - INTERVAL '500' MILLISECOND AND asked + INTERVAL '1' SECOND WHERE note <> 'b'"
)
COUNTED = (
    "SELECT * FROM (SELECT window_end, UPPER(note) AS note, COUNT(*) AS n, SUM(price) AS total, "
    "MIN(rate) AS low, AVG(rate) AS mean, "
    "RANK() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC) AS place "
    "FROM HOP(offers, time, INTERVAL '2' SECOND, INTERVAL '4' SECOND) WHERE auction <> 3 "
    "GROUP BY window_start, window_end, UPPER(note)) WHERE place <= 2"
)
HIGHEST = (
    "SELECT window_end, MAX(price) AS best, COUNT(note) AS notes "
    "FROM TUMBLE(offers, time, INTERVAL '5' SECOND) WHERE price > 1 GROUP BY window_start, window_end"
)


PASSED = "SELECT auction, UPPER(note) AS note, price * 2 AS twice, rate FROM offers WHERE price <> 0"


def cut_composition(counted: str, merges: str, passed: str = "filter", **highest: str) -> str:
    others = "".join(f", {name}: {value}" for name, value in highest.items())
    return (
        f"{CUT_TOPICS}"
        f'- {{job_name: counted, rest: F, cut: {counted}, sink_topic: out/cut/counted, sql: "{COUNTED}"}}\n'
        f"- {{job_name: highest, rest: S, cut: {{offers-s: filter, offers-g: {merges}}}, "
        f'sink_topic: out/cut/highest, sql: "{HIGHEST}"{others}}}\n'
        f'- {{job_name: near, rest: F, cut: filter, sink_topic: out/cut/near, sql: "{NEAR}"}}\n'
        f'- {{job_name: passed, rest: F, cut: {passed}, sink_topic: out/cut/passed, sql: "{PASSED}"}}\n'
    )


def offers(start: int, count: int) -> list[str]:
    notes = (None, "abc", "a\u00e4\U0001f600", "b")
    return [
        json.dumps(
            {
                "time": 1_700_000_000_000 + 250 * each,
                "auction": each % 4,
                "price": each * 7 % 11 if each % 5 else None,
                "rate": each / 8 if each % 3 else None,
                "note": notes[each % 4 if each % 7 else 0],
            }
        )
        for each in range(start, start + count)
    ]


def asks(start: int, count: int) -> list[str]:
    return [
        json.dumps({"asked": 1_700_000_000_000 + 250 * each, "lot": each % 3, "most": each % 7})
        for each in range(start, start + count)
    ]


LAST_ASK = json.dumps({"asked": 1_750_000_000_000, "lot": 9, "most": 0})
LAST_OFFER = json.dumps({"time": 1_750_000_000_000, "auction": 3, "price": 0})


def test_a_query_in_parts_gives_the_rows_of_the_whole_one_over_a_change_of_its_cuts(bench: Bench) -> None:
    """Input jobs on Spark and on Flink, a rest on each, one of which is restarted.

    On Flink the one before each rest merges for a while.
    """
    before = cut_composition("columns", "partials")
    after = cut_composition("{offers-s: rows, offers-g: partials}", "partials", "rows", on_error="skip")
    last = cut_composition("{offers-s: rows, offers-g: filter}", "columns", on_error="skip")
    queries = {name: each.query for name, each in queries_of(before.encode(), ()).items()}
    topic = "cut/bid/x"
    senders = (bench.mqtt_client, bench.other)
    sent: list[tuple[str, bytes]] = []
    asked: list[tuple[str, bytes]] = []

    def ask(found: list[str]) -> None:
        bench.mqtt_client.send("cut/ask/x", found)
        asked.extend(("cut/ask/x", each.encode()) for each in found)

    def send(start: int) -> None:
        """Interleaved, so that the rows of both sites come within the watermark."""
        ask(asks(start, 40))
        found = offers(start, 40)
        for side, sender in enumerate(senders):
            sender.send(topic, found[side::2])
        sent.extend((topic, each.encode()) for each in found)

    bench.apply(before)
    send(0)
    actions = bench.change(after)
    assert actions["counted.rest"] == actions["passed.rest"] == "keep"
    assert actions["counted.offers-s"] == actions["passed.offers-g"] == "update"
    assert actions["highest.rest"] == actions["highest.offers-g"] == "update"
    send(40)
    actions = bench.change(last)
    assert actions["counted.rest"] == actions["highest.rest"] == "keep"
    assert actions["counted.offers-g"] == actions["highest.offers-g"] == "update"
    send(80)
    ask([LAST_ASK])
    for sender in senders:
        sender.send(topic, [LAST_OFFER])
    sent.append((topic, LAST_OFFER.encode()))
    for name, query in queries.items():
        tables = [asked, sent] if query.program.join else [sent]
        expected = evaluate_tables(query.program, tables)
        assert len(expected.messages) > 3 and not expected.late
        got = eventually(
            lambda topic=f"out/cut/{name}": sorted(bench.received(topic)),
            lambda found, expected=expected: len(found) >= len(expected.messages),
            PATIENCE,
        )
        assert got == sorted(expected.messages), name


# --- edits of queries with windows that are open

EDITED = """
name: sql-edits
topics:
  edit/bid/+:
    as: calls
    schema: {{time: timestamp(ms) not null, lot: bigint not null, price: bigint}}
    event_time: time
    watermark: 1 s
jobs:
- {{job_name: edited-spark, site: S, format: {form}, sink_topic: edit/out/spark, sql: "{text}"}}
- {{job_name: edited-flink, site: F, format: {form}, sink_topic: edit/out/flink, sql: "{text}"}}
"""
COUNT = "SELECT lot, COUNT(*) AS n FROM TUMBLE(calls, time, INTERVAL '10' SECOND)"
GROUPED = "GROUP BY window_start, window_end, lot"
KEPT = {  # an edit, and what becomes of the jobs
    f"/* calls */ {COUNT} AS c {GROUPED}": "keep",
    f"{COUNT} {GROUPED} HAVING COUNT(*) > 1": "update",
    f"{COUNT.replace(' AS n', ' AS n, COUNT(*) * 2 AS twice')} {GROUPED}": "update",
    f"{COUNT} WHERE price >= 0 {GROUPED}": "update",
}
LOST = {
    f"{COUNT.replace('lot,', 'lot + 1 AS lot,')} {GROUPED.replace('lot', 'lot + 1')}": "the keys change",
    f"{COUNT.replace('COUNT(*)', 'SUM(price)')} {GROUPED}": "the totals change",
    f"{COUNT.replace(' AS n', ' AS n, MAX(price) AS most')} {GROUPED}": "the totals change",
    f"{COUNT.replace('10', '20')} {GROUPED}": "the windows change",
    f"{COUNT.replace('TUMBLE', 'SESSION')} {GROUPED}": "the windows change",
}


@trial("test_both_engines_give_the_rows_of_the_reference_and_park_what_does_not_fit")
def test_open_windows_outlive_the_edits_that_the_plan_accepts(bench: Bench) -> None:
    def call(at: int) -> str:
        return json.dumps({"time": 1_700_000_000_000 + at, "lot": at % 2, "price": at})

    def edited(text: str, form: str = "json") -> dict[str, str]:
        return bench.change(EDITED.format(text=text, form=form))

    edited(f"{COUNT} {GROUPED}")
    sent = 0
    for text, action in [*KEPT.items(), (f"{COUNT} {GROUPED}", "update")]:
        bench.mqtt_client.send("edit/bid/x", [call(each) for each in range(sent, sent + 10)])
        sent += 10
        for refused, reason in LOST.items():
            with pytest.raises(InvalidInput, match=reason):
                edited(refused)
        assert set(edited(text).values()) == {action}, text
    assert set(edited(f"{COUNT} {GROUPED}", "csv").values()) == {"update"}
    bench.mqtt_client.send("edit/bid/x", [call(100_000)])
    for engine in ("spark", "flink"):
        got = eventually(
            lambda topic=f"edit/out/{engine}": sorted(bench.received(topic)),
            lambda found: len(found) >= 2,
            PATIENCE,
        )
        assert got == [f"0,{sent // 2}", f"1,{sent // 2}"], engine


# --- rows that come after their window was written

LATE = """
name: sql-late
topics:
  late/bid/+: &table
    as: calls
    schema: {{time: timestamp(ms) not null, lot: bigint not null}}
    event_time: time
    watermark: 1 s
  late/other/+: {{<<: *table, as: others, at: {at}}}
jobs:
- {{job_name: late-spark, site: S, format: csv, sink_topic: late/out/spark, sql: "{whole}"}}
- {{job_name: late-flink, site: F, format: csv, sink_topic: late/out/flink, sql: "{whole}"}}
- {{job_name: late-parts, rest: F, cut: columns, format: csv, sink_topic: late/out/parts, sql: "{parts}"}}
"""


def test_an_edit_writes_no_window_again_for_a_late_row(bench: Bench) -> None:
    """The edit restarts the whole queries, and adds an input to that in parts."""
    query = f"{COUNT.replace('SELECT lot', 'SELECT EPOCH_MS(window_start) AS start, lot')} {GROUPED}"

    def composition(at: str, query: str) -> str:
        return LATE.format(at=at, whole=query, parts=query.replace("calls", "others"))

    def call(second: int) -> str:
        return json.dumps({"time": 1_700_000_000_000 + 1000 * second, "lot": 0})

    def received(name: str, count: int) -> list[str]:
        return eventually(
            lambda: bench.received(f"late/out/{name}"), lambda found: len(found) >= count, PATIENCE
        )

    bench.apply(composition("[S]", query))
    for topic in ("late/bid/x", "late/other/x"):
        bench.mqtt_client.send(topic, [call(0), call(1), call(30)])
    first, second = "1700000000000,0,2", "1700000030000,0,2"
    for name in ("spark", "flink", "parts"):
        assert received(name, 1) == [first], name
    actions = bench.change(composition("[S, G]", f"{query} HAVING COUNT(*) > 0"))
    assert actions["late-spark"] == actions["late-flink"] == "update"
    assert actions["late-parts.others-g"] == "start"
    bench.other.send("late/other/x", [call(2), call(60), call(4_000_000)])
    for topic in ("late/bid/x", "late/other/x"):
        bench.mqtt_client.send(topic, [call(2), call(31), call(4_000_000)])
    assert received("parts", 3) == [first, second, "1700000060000,0,1"]
    assert received("spark", 2) == received("flink", 2) == [first, second]


LATE_SESSIONS = """
name: sql-late-sessions
topics:
  late/visit/+:
    as: visits
    schema: {{time: timestamp(ms) not null, who: string not null}}
    event_time: time
    watermark: 1 s
jobs:
- {{job_name: sessions-spark, site: S, format: csv, sink_topic: late/out/spark, sql: "{text}"}}
- {{job_name: sessions-flink, site: F, format: csv, sink_topic: late/out/flink, sql: "{text}"}}
"""


def test_a_late_row_is_not_added_to_a_session_that_is_open(bench: Bench) -> None:
    """The one that it would have alone is over; another row, whose own is not, is added."""
    text = (
        "SELECT who, COUNT(*) AS n FROM SESSION(visits, time, INTERVAL '10' SECOND) "
        "GROUP BY window_start, window_end, who"
    )

    def visit(millis: int, who: str) -> str:
        return json.dumps({"time": 1_700_000_000_000 + millis, "who": who})

    bench.apply(LATE_SESSIONS.format(text=text))
    begin = [visit(0, "a"), visit(9000, "a"), visit(10_000, "b"), visit(18_000, "a"), visit(21_900, "c")]
    bench.mqtt_client.send("late/visit/x", begin)  # the watermark is at 20 s, and closes the session of b
    late = [visit(5000, "a"), visit(10_500, "a")]
    expected = [["b,1"], ["a,4", "b,1", "c,1"]]
    for found, sent in zip(expected, ([], [*late, visit(4_000_000, "d")]), strict=True):
        bench.mqtt_client.send("late/visit/x", sent)
        for engine in ("spark", "flink"):
            got = eventually(
                lambda topic=f"late/out/{engine}": sorted(bench.received(topic)),
                lambda rows, found=found: len(rows) >= len(found),
                PATIENCE,
            )
            assert got == found, engine
