"""Records as bytes: what comes out is what went in, and records of earlier versions are read."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from speck.core.job import client_id, session_name
from speck.core.runtime import Attempt
from speck.store import codec
from speck.store.records import AttemptRecord, Event, JobRecord, SessionRecord
from tests.support.properties import tries

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
IDS = st.sampled_from([ID, uuid.UUID(int=ID.int + 1)])
WORDS = st.one_of(
    IDS.map(str),
    IDS.map(lambda each: each.hex),
    IDS.map(lambda each: each.hex[:16]),
    IDS.map(lambda each: f"{each.hex}{each.hex}"),
    IDS.map(lambda each: str(each).upper()),
    st.text(max_size=3),
)


@tries(300)
@given(st.lists(WORDS, max_size=6).map("/".join), st.lists(WORDS, max_size=6).map(":".join))
def test_ids_anywhere_in_a_text_come_back(message: str, author: str) -> None:
    event = Event(1.5, "drift", message, author=author)
    assert codec.decode_event(codec.encode_event(event)) == event


def test_an_id_is_written_once() -> None:
    once, twice = (len(codec.encode_event(Event(0, "", text))) for text in (str(ID), f"{ID} {ID.hex} {ID}"))
    assert twice == once + len("  ") + 2


def test_names_of_sessions_come_back() -> None:
    for name in (
        client_id("a"),
        session_name("a", ID.hex[:16]),
        session_name("a", ID.hex[:16], 3),
        session_name("ab", ID.hex[:16]),
        "speck-a.other",
        "x",
    ):
        sessions = tuple(SessionRecord("tcp://b:1883", name, "t", *start) for start in ((), ("earliest",)))
        job = JobRecord("a", "c", sessions=sessions, unread=name)
        assert codec.decode_job("a", codec.encode_job(job)) == job
        attempt = AttemptRecord(Attempt(id=ID.hex, job_name="a", number=1, session=name), 1)
        assert codec.decode_attempt("a/1", codec.encode_attempt(attempt)) == attempt


def test_records_of_the_versions_before_are_read() -> None:
    """Their ids have their bytes each time, and the sessions their whole names."""
    packed, owner = ID.bytes, ID.hex[:16]
    job = b'{"c":"city","n":1,"s":[["tcp://b:1883","t","speck-a:%s"]]}' % owner.encode()
    (session,) = codec.decode_job("a", job).sessions
    assert session.name == session_name("a", owner)
    attempt = (
        b'{"i":"\xff%s","r":1,"p":"running","h":["sc://e","\xfe%s",{"path":"/a/\xff%s"}],"s":"speck-a:%s"}'
    )
    found = codec.decode_attempt("a/1", attempt % (packed, packed, packed, owner.encode()))
    assert found.attempt.id == ID.hex
    assert found.attempt.session == session_name("a", owner)
    assert found.handle is not None
    assert (found.handle.engine_id, found.handle.details) == (str(ID), {"path": f"/a/{ID.hex}"})
