"""The agent's end: one connection to the coordinator, opened again whenever it ends."""

from __future__ import annotations

import contextlib
import http
import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from speck.binder.asking import begin
from speck.core.inventory import is_loopback
from speck.errors import Rejected, SpeckError
from speck.link.beat import ANSWER, Beat
from speck.link.codec import encode
from speck.link.errors import error_data
from speck.link.frames import LARGEST_FRAME, Assembly, BadFrame, SharedRoom, pack, pieces
from speck.link.hello import ACCEPTED, CONFIRMS, Hello, epoch_message
from speck.link.lasting import LASTS, PATIENCE
from speck.link.pauses import FIRST_PAUSE, LONGEST_PAUSE, Pauses
from speck.link.repeats import MARK, AnsweredCalls, text_of, whole_call
from speck.link.tls import fault_of

LONGEST_OF_PAIR = 2.0  # s; one of two servers is a standby, which refuses each try
MOST_CALLS = 64  # under way; the coordinator has at most 32
LONGEST_AGAIN = 120  # s; a proxy before the coordinator may ask for hours
UNACKNOWLEDGED = 30.0  # s, for which what is sent may stay so: as long as a coordinator waits for a sign
PULSE = 5.0  # s between two calls of `on_pulse`, at most
OPENING = 30.0  # s, for an answer: after a restart, the coordinator may have thousands of connections

_log = logging.getLogger(__name__)

Answer = Callable[[dict[str, Any], Callable[[], bool]], dict[str, Any]]


class Refused(Exception):
    """The coordinator refuses this agent; the message has its reason."""


@dataclass
class Dialler:
    """Keeps a connection to one of ``urls``, and answers the calls that come over it, each in a thread.

    ``answer(call, is_open)`` returns the answer; ``is_open()`` is false once the connection has ended.
    ``on_answered(call)`` is called when the answer was sent.
    ``contact(reason)`` is called with an empty text at each contact, and with the reason at its end, or with
    those of all ``urls`` for which there is none.
    ``accepts(epoch)`` is called with the epoch of the coordinator, and returns the reason why that is
    refused, or an empty text; ``known_epoch()`` is the one for which it is.  ``on_pulse()`` is called every
    few seconds while there is contact.
    """

    urls: Sequence[str]
    token: Callable[[], str]
    hello: Callable[[], Hello]
    answer: Answer
    contact: Callable[[str], object]
    context: ssl.SSLContext | None = None
    on_answered: Callable[[dict[str, Any]], object] = lambda call: None
    accepts: Callable[[int], str] = lambda epoch: ""
    on_pulse: Callable[[], object] = lambda: None
    known_epoch: Callable[[], int] = int
    takes_lasting: bool = field(default=False, init=False)  # looks, see speck.link.look
    _beat: Beat = field(default_factory=Beat, init=False)
    _large: SharedRoom = field(default_factory=SharedRoom, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _socket: ClientConnection | None = field(default=None, init=False)
    _greeted: ClientConnection | None = field(default=None, init=False)
    _reasons: dict[str, str] = field(default_factory=dict, init=False)  # why there is no contact, by URL
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1), init=False)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_CALLS), init=False)

    def run(self) -> None:
        """Keep a connection until :meth:`close`."""
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE if len(self.urls) == 1 else LONGEST_OF_PAIR)
        at = 0
        while True:
            begun = time.monotonic()
            self._reasons[self.urls[at]], again = self._connected(self.urls[at])
            if self._stop.is_set():
                return
            self.contact("; ".join(self._reasons.values()))
            if again is None:
                at = (at + 1) % len(self.urls)
            self._stop.wait(pauses.after(time.monotonic() - begun, again))

    def close(self) -> None:
        """End the connection, and open no other."""
        self._stop.set()
        if (found := self._socket) is not None:
            found.close()

    def send(self, message: dict[str, Any]) -> bool:
        """Send a message that answers no call; false without a connection."""
        if (websocket := self._greeted) is None:
            return False
        try:
            self._send(websocket, message)
        except (WebSocketException, OSError):  # the next connection gets another
            return False
        return True

    def _connected(self, url: str) -> tuple[str, int | None]:
        """Connect, and serve until the end; returns its reason, and what :func:`come_again` says of it."""
        host = url.split("://", 1)[1].split("/", 1)[0].rpartition(":")[0].strip("[]")
        try:
            with connect(
                f"{url}/agent",
                ssl=self.context if url.startswith("wss:") else None,
                additional_headers={"Authorization": f"Bearer {self.token()}", CONFIRMS: "1"},
                compression=None,
                max_size=LARGEST_FRAME,
                open_timeout=OPENING,
                ping_interval=None,  # see _keep
                user_agent_header=None,
                proxy=None if is_loopback(host) else True,
            ) as websocket:
                self._socket = websocket
                _bound(websocket)
                if self._stop.is_set():  # closed while it connected
                    return "closed", None
                assembly, self._beat, self._large = Assembly(), Beat(), SharedRoom()
                self._greet(websocket, assembly)
                self._reasons.clear()
                self.contact("")
                self._greeted = websocket
                self._serve(websocket, assembly)
        except InvalidStatus as error:
            return f"{url} refuses the connection: {_words(error)}", come_again(error)
        except Refused as error:
            return f"{url} refuses this agent: {error}", None
        except Exception as error:  # whatever ended it, the next connection is the remedy
            known = WebSocketException | OSError | BadFrame | TimeoutError | SpeckError
            if not isinstance(error, known):
                _log.exception("the connection to %s failed", url)
            if self._beat.is_lost:
                return f"{url} does not answer any more", None
            return f"{url}: {fault_of(error)}", None
        finally:
            self._socket = self._greeted = None
        return f"{url} closed the connection", None

    def _greet(self, websocket: ClientConnection, assembly: Assembly) -> None:
        self._send(websocket, encode(self.hello()) | {"protocol": self.hello().protocol})
        message = None
        while message is None:
            message = assembly.add(websocket.recv(OPENING))
        if "welcome" not in message:
            raise Refused(str(message.get("refused", "it answers otherwise than a coordinator")))
        if reason := self.accepts(_epoch_in(message["welcome"])):
            with contextlib.suppress(WebSocketException, OSError):
                self._send(websocket, epoch_message(self.known_epoch()))  # for people at the coordinator
            raise BadFrame(reason)
        self._send(websocket, dict(ACCEPTED))
        self.takes_lasting = _entry(message["welcome"], "lasting") is True

    def _serve(self, websocket: ClientConnection, assembly: Assembly) -> None:
        open_, ended, answered, beat = threading.Event(), threading.Event(), AnsweredCalls(), self._beat
        open_.set()
        begin(lambda: self._keep(websocket, beat, ended), "beat")
        begin(lambda: self._look_after(websocket, answered, open_, ended), "lasting")
        try:
            for frame in websocket:
                beat.note_received()
                call = assembly.add(frame)
                if call is not None:
                    self._begin_reply(websocket, call, open_, answered)
        finally:
            open_.clear()
            ended.set()

    def _keep(self, websocket: ClientConnection, beat: Beat, ended: threading.Event) -> None:
        """Ping where one direction is quiet; end a connection whose other end does not answer."""
        while not ended.wait(min(PULSE, beat.left())):
            self.on_pulse()
            if beat.left():
                continue
            try:
                pong = websocket.ping()
            except (WebSocketException, OSError):
                return
            beat.note_sent()
            if not pong.wait(ANSWER) and not ended.is_set():
                beat.is_lost = True
                websocket.close_socket()
                return
            beat.note_received()

    def _look_after(
        self,
        websocket: ClientConnection,
        answered: AnsweredCalls,
        open_: threading.Event,
        ended: threading.Event,
    ) -> None:
        """Withdraw the answers that last once they are not right any more, or cannot be had."""
        while not ended.wait(PULSE):
            for each in answered.watched.due():
                begun = time.monotonic()
                found = self.answer({**each.call, "t": PATIENCE}, open_.is_set)
                if answered.watched.looked(each, begun, text_of(found)):
                    with contextlib.suppress(WebSocketException, OSError):
                        self._send(websocket, {LASTS: each.number})

    def _begin_reply(
        self,
        websocket: ClientConnection,
        message: dict[str, Any],
        open_: threading.Event,
        answered: AnsweredCalls,
    ) -> None:
        """Answer a call in a thread.  Raises ``RuntimeError`` if none can be started."""
        self._room.acquire()
        try:
            begin(lambda: self._reply(websocket, message, open_, answered), "call")
        except BaseException:
            self._room.release()  # the room is that of all connections
            raise

    def _reply(
        self,
        websocket: ClientConnection,
        message: dict[str, Any],
        open_: threading.Event,
        answered: AnsweredCalls,
    ) -> None:
        try:
            last = answered.last(message)
            call = whole_call(message, last)
            answer: dict[str, Any] = {MARK: False}
            if call is not None:
                answer = answered.answer(message, last, self.answer(call, open_.is_set))
            with contextlib.suppress(WebSocketException, OSError):  # the caller knows that it ended
                self._send_answer(websocket, message, answer)
            if call is not None:
                self.on_answered(call)
        finally:
            self._room.release()

    def _send_answer(
        self, websocket: ClientConnection, message: dict[str, Any], answer: dict[str, Any]
    ) -> None:
        """Send the answer to a call, or why it cannot be sent: the caller would wait for it in vain."""
        number = {"c": message.get("c")}
        try:
            self._send(websocket, answer | number)
        except BadFrame as error:
            refused = Rejected(f"the answer cannot be sent: {error}", address=str(message.get("e", "")))
            self._send(websocket, {"x": error_data(refused)} | number)

    def _send(self, websocket: ClientConnection, message: dict[str, Any]) -> None:
        packed = pack(message)
        if isinstance(packed, str):
            websocket.send(packed)
            self._beat.note_sent()
            return
        with self._large.taken(len(packed)):
            for piece in pieces(packed, next(self._numbers)):
                websocket.send(piece)
                self._beat.note_sent()


def _bound(websocket: ClientConnection) -> None:
    """Have the system end a connection that does not take what is sent.

    A ping would wait behind that, and all that reports a look, for the quarter of an hour after which TCP
    gives up.
    """
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # of Linux alone
        websocket.socket.setsockopt(socket.IPPROTO_TCP, option, int(1000 * UNACKNOWLEDGED))


def _epoch_in(welcome: object) -> int:
    """The epoch of a coordinator; 0 for one without a standby."""
    found = _entry(welcome, "epoch")
    return found if isinstance(found, int) else 0


def _entry(welcome: object, name: str) -> object:
    return welcome.get(name) if isinstance(welcome, dict) else None


def come_again(error: InvalidStatus) -> int | None:
    """The time after which the coordinator asks an agent to come again, s; ``None`` without one.

    It is in ``Retry-After`` (RFC 9110, 10.2.3) of an answer 503.
    """
    answer = error.response
    found = answer.headers.get("Retry-After", "")
    is_busy = answer.status_code == http.HTTPStatus.SERVICE_UNAVAILABLE
    is_number = found.isdecimal() and len(found) < 10
    return min(LONGEST_AGAIN, int(found)) if is_busy and is_number else None


def _words(error: InvalidStatus) -> str:
    body = (error.response.body or b"").decode(errors="replace").strip()
    return body or f"status {error.response.status_code}"
