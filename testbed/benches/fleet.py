"""Simulated agents over real sockets: ``python -m testbed.benches.fleet URL --first N --count N``.

Each connects as an agent does, again after a pause if it has to, with one job that runs.  It answers the
calls of a round, and reports looks unless there is ``--without-looks``.  With ``--impatient`` it keeps to its
own pauses when the coordinator asks it to come again, as agents of an earlier version do.  For each line of
standard input, one on standard output has the bytes and segments that they have sent and received; they end
with the input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from speck.core.runtime import Found, JobState, JobStatus
from speck.link.beat import ANSWER, Beat
from speck.link.codec import encode
from speck.link.dial import OPENING, come_again
from speck.link.frames import PROTOCOL
from speck.link.hello import Hello
from speck.link.look import Look, LookMessage
from speck.link.pauses import Pauses

_TCP_INFO = struct.Struct("=8B24I4Q2I")  # Linux, linux/tcp.h, up to the numbers of segments


def engine_of(number: int) -> str:
    """The address of a simulated site's engine."""
    return f"sc://s{number}:15002"


def broker_of(number: int) -> str:
    """The address of its broker."""
    return f"tcp://s{number}:1883"


def token_of(number: int) -> str:
    """The token of its agent."""
    return f"token-of-simulated-site-{number}"


@dataclass
class Fleet:
    """The agents of the sites ``first`` to ``first + count - 1``."""

    url: str
    first: int
    count: int
    looks: bool
    impatient: bool = False
    connected: dict[int, ClientConnection] = field(default_factory=dict)

    async def run(self) -> None:
        """Run until standard input ends."""
        agents = [asyncio.create_task(self._agent(self.first + each)) for each in range(self.count)]
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(self._traffic()), flush=True)
        for each in agents:
            each.cancel()

    async def _agent(self, number: int) -> None:
        pauses = Pauses()
        while True:
            begun, again = time.monotonic(), None
            try:
                await self._connection(number)
            except InvalidStatus as error:
                again = None if self.impatient else come_again(error)
            except (OSError, TimeoutError, WebSocketException):
                pass
            self.connected.pop(number, None)
            await asyncio.sleep(pauses.after(time.monotonic() - begun, again))

    async def _connection(self, number: int) -> None:
        headers = {"Authorization": f"Bearer {token_of(number)}"}
        async with connect(
            f"{self.url}/agent",
            additional_headers=headers,
            compression=None,
            open_timeout=OPENING,
            ping_interval=None,
            user_agent_header=None,
            proxy=None,
        ) as websocket:
            hello = Hello(
                protocol=PROTOCOL,
                version="simulated",
                site=f"s{number}",
                engines=(engine_of(number),),
                broker=broker_of(number),
                machine=f"m{number}",
            )
            await websocket.send(json.dumps(encode(hello) | {"protocol": PROTOCOL}))
            await websocket.recv()
            self.connected[number] = websocket
            if self.looks:
                await self._look(number, websocket)
            beat = Beat()
            beating = asyncio.create_task(_keep(websocket, beat))
            try:
                async for frame in websocket:
                    beat.note_received()
                    call = json.loads(frame)
                    await websocket.send(json.dumps({"c": call["c"], "r": _answer(number, call)}))
                    beat.note_sent()
            finally:
                beating.cancel()

    async def _look(self, number: int, websocket: ClientConnection) -> None:
        look = Look(engine=engine_of(number), settled=(f"j{number}",), running=(_found(number),))
        await websocket.send(json.dumps(encode(LookMessage(look=look, lasting=True))))

    def _traffic(self) -> dict[str, int]:
        """The bytes of all connections above TCP, and their segments, in both directions."""
        found = {"bytes": 0, "segments": 0}
        for each in self.connected.values():
            plain = each.transport.get_extra_info("socket")
            info = _TCP_INFO.unpack(plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
            found["bytes"] += info[34] + info[35]
            found["segments"] += info[36] + info[37]
        return found


async def _keep(websocket: ClientConnection, beat: Beat) -> None:
    """Ping where one direction is quiet, as an agent does."""
    try:
        while True:
            await asyncio.sleep(beat.left())
            if not beat.left():
                pong = await websocket.ping()
                beat.note_sent()
                async with asyncio.timeout(ANSWER):
                    await pong
                beat.note_received()
    except TimeoutError:
        websocket.transport.abort()
    except WebSocketException:
        pass


def _found(number: int) -> Found:
    return Found(f"j{number}", f"job-{number}", attempt=f"{number:032x}", number=1)


def _answer(number: int, call: dict[str, Any]) -> Any:
    if call["m"] == "running":
        return encode([_found(number)])
    return {
        each["engine_id"]: encode(JobStatus(JobState.RUNNING, time.time())) for each in call["a"]["handles"]
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the agents."""
    parser = argparse.ArgumentParser(description="simulated agents")
    parser.add_argument("url")
    parser.add_argument("--first", type=int, default=0, metavar="N")
    parser.add_argument("--count", type=int, default=1, metavar="N")
    parser.add_argument("--without-looks", action="store_true")
    parser.add_argument("--impatient", action="store_true")
    options = parser.parse_args(arguments)
    fleet = Fleet(options.url, options.first, options.count, not options.without_looks, options.impatient)
    asyncio.run(fleet.run())


if __name__ == "__main__":
    main()
