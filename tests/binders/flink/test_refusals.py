"""Answers of proxies and of other programs at the address of a Flink: refusals, redirects, pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from binders.flink.engine import FlinkEngine
from binders.flink.rest.requests import FlinkRefused
from speck.core.foreign_text import one_line
from speck.core.inventory import Inventory, Login, Secret
from speck.core.runtime import Attempt, Handle, JobState
from speck.errors import OutcomeUnknown, Rejected
from testbed.benches.examples import one_site
from testbed.doubles.engine_answers import FLINK_JOB
from testbed.servers.http import Handler, http_server

PAGE = """<html><head><title>{title}</title><style>p {{}}</style></head>
<body><h1>{title}</h1><p>nginx/1.22</p></body></html>"""
PASSWORD = "open-sesame"
ATTEMPT = Attempt(id=FLINK_JOB, job_name="a", number=1, session="speck-a")


@contextmanager
def engine_at(status: int, body: str, **headers: str) -> Iterator[FlinkEngine]:
    """A binder of an address at which each request has this answer."""

    class Foreign(Handler):
        def reply(self) -> None:
            self.body()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815 - the names of http.server

    with http_server(Foreign) as port:
        address = f"http://127.0.0.1:{port}/"
        login = Login(username="speck", password=Secret("${FLINK_PASSWORD}"))
        site = one_site("A", address, "tcp://127.0.0.1:1883", None, engine_login=login)
        engine = FlinkEngine(address, Inventory({"A": site}))
        yield engine
        engine.close()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_PASSWORD", PASSWORD)


REFUSALS = {
    "another program": (404, PAGE.format(title="404 Not Found"), "HTTP 404: 404 Not Found; expected a JobM"),
    "http where https is spoken": (
        400,
        PAGE.format(title="400 The plain HTTP request was sent to HTTPS port"),
        "HTTP 400: 400 The plain HTTP request was sent to HTTPS port; expected a JobManager's REST address",
    ),
    "a jar that a proxy does not take": (
        413,
        PAGE.format(title="413 Request Entity Too Large"),
        "HTTP 413: 413 Request Entity Too Large; expected a larger client_max_body_size of the proxy",
    ),
    "a method that is not allowed": (
        405,
        '{"error": "no such method"}',
        'HTTP 405: {"error": "no such method"}',
    ),
    "no body": (404, "", "(HTTP 404; expected"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_of_another_program_is_no_reason_to_try_again(kind: str) -> None:
    status, body, words = REFUSALS[kind]
    with engine_at(status, body) as engine:
        for call in (
            engine.capacity,
            lambda: engine.find(ATTEMPT),
            lambda: engine.rest.upload(b"", "a.jar"),
            lambda: engine.rest.run("a.jar", {}),
        ):
            with pytest.raises(Rejected) as caught:
                call()
            assert not isinstance(caught.value, FlinkRefused)
            assert words in str(caught.value)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [404, 400, 302, 200, 503])
def test_a_job_is_not_lost_because_a_proxy_answers(status: int) -> None:
    """It would be started once more elsewhere."""
    with engine_at(status, PAGE.format(title="Not Found")) as engine:
        assert engine.status(Handle(engine.address, FLINK_JOB, {"job": "a"})).state is JobState.UNKNOWN
        with pytest.raises((Rejected, OutcomeUnknown)):
            engine.find(ATTEMPT)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_request_that_may_be_sent_again_is_not_refused(status: int) -> None:
    with engine_at(status, PAGE.format(title="later")) as engine, pytest.raises(OutcomeUnknown):
        engine.capacity()


def test_a_page_to_log_in_is_named_with_the_address_that_it_redirects_to() -> None:
    words = r"redirects to, https://login\.example/\?next=flink, if that is"
    redirecting = engine_at(302, "", Location="https://login.example/?next=flink")
    with redirecting as engine, pytest.raises(Rejected, match=words):
        engine.capacity()
    page = engine_at(200, PAGE.format(title="Log in"))
    with page as engine, pytest.raises(OutcomeUnknown, match="not Flink's"):
        engine.capacity()


@pytest.mark.parametrize("echo", [PASSWORD, "c3BlY2s6b3Blbi1zZXNhbWU="])
def test_a_refusal_that_repeats_the_login_is_not_quoted(echo: str) -> None:
    with engine_at(400, f"bad request of {echo}") as engine, pytest.raises(Rejected) as caught:
        engine.capacity()
    assert echo not in str(caught.value)
    assert "(HTTP 400; expected" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\nlines\x00\x1b[31m", "two lines [31m"),
        (PAGE.format(title=" a\n b "), "a b"),
        ("<html><body><script>evil()</script><p>it is <b>down</b></p><!-- no --></body>", "it is down"),
        ("<script>" * 1000, ""),
        ("x" * 1000, "x" * 300),
        ("", ""),
    ],
)
def test_text_of_others_is_one_bounded_line(text: str, line: str) -> None:
    assert one_line(text) == line
