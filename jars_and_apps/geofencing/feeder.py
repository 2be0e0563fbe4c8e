"""Publish the messages of a file of the generator, each to the broker of its site.

    python -m jars_and_apps.geofencing.feeder FILE --broker A=tcp://127.0.0.1:1883 --broker B=... [...]

At the end, one JSON object on standard output: ``{"messages": N, "lines": N, "malformed": N, "seconds": S}``.
Delivery is at least once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jars_and_apps.road_traffic.publisher import Publisher, PublishError

_FIELDS = ("site", "topic", "text")


def messages_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The messages of a file.  Raises :class:`ValueError`, with the line, for anything else."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                message = json.loads(line)
                if not all(isinstance(message[name], str) for name in _FIELDS):
                    raise TypeError
            except (KeyError, TypeError, ValueError) as error:
                fields = ", ".join(_FIELDS)
                fault = f"{path}, line {number} is not a message (expected a JSON object with {fields})"
                raise ValueError(fault) from error
            yield message


def feed(path: Path, publishers: Mapping[str, Publisher], rate: float) -> dict[str, float]:
    """Publish all messages, at ``rate`` lines/s at most (0: no bound); returns their counts.

    Raises :class:`PublishError`.
    """
    begun = time.monotonic()
    messages = lines = malformed = 0
    for message in messages_of(path):
        while rate and (early := begun + lines / rate - time.monotonic()) > 0:
            # Pauses serve to receive acknowledgements and to keep connections alive.
            for publisher in publishers.values():
                publisher.exchange(0.0)
            time.sleep(min(early, 0.02))
        text = message["text"]
        publishers[message["site"]].publish(
            message["topic"], text.encode(), retain=bool(message.get("retain"))
        )
        messages += 1
        lines += text.count("\n") + 1
        malformed += bool(message.get("malformed"))
    for publisher in publishers.values():
        publisher.flush()
    seconds = round(time.monotonic() - begun, 3)
    return {"messages": messages, "lines": lines, "malformed": malformed, "seconds": seconds}


def broker_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the brokers."""
    help_ = "the broker of a site (may be repeated)"
    parser.add_argument(
        "--broker", action="append", default=[], type=site_address, metavar="SITE=ADDRESS", help=help_
    )


def site_address(text: str) -> tuple[str, str]:
    """The site and the address in ``SITE=ADDRESS``."""
    site, _, address = text.partition("=")
    if not (site and address):
        raise argparse.ArgumentTypeError(f"{text!r} has no site or address (expected SITE=tcp://HOST:PORT)")
    return site, address


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is negative or not finite (expected 0 or more)")
    return rate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Publish messages about fences and positions.")
    parser.add_argument("file", type=Path, help="fences.jsonl or stream.jsonl of the generator")
    broker_option(parser)
    parser.add_argument(
        "--rate", type=_rate, default=0.0, metavar="N", help="lines/s (0: as fast as possible)"
    )
    options = parser.parse_args(arguments)
    publishers: dict[str, Publisher] = {}
    try:
        brokers = dict(options.broker)
        for site in sorted({message["site"] for message in messages_of(options.file)}):
            if site not in brokers:
                raise ValueError(f"no broker for site {site!r} (expected --broker {site}=tcp://HOST:PORT)")
            publishers[site] = Publisher(brokers[site])
        print(json.dumps(feed(options.file, publishers, options.rate)))
    except (OSError, ValueError, PublishError) as error:
        print(f"feeder: {error}", file=sys.stderr)
        return 1
    finally:
        for publisher in publishers.values():
            publisher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
