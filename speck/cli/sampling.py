"""Messages of topics, read from brokers without a session: the jobs do not notice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from speck.cli.options import Duration, default_sites
from speck.core.inventory import Inventory
from speck.core.topic import filter_fault
from speck.errors import Fault, InvalidInput

if TYPE_CHECKING:
    from speck.binder.contract import Feed

Messages = Iterator[tuple[str, bytes]]
_Function = TypeVar("_Function", bound=Callable[..., object])
_PAUSE = 0.02  # s between two polls of the feeds
_LONGEST = 24 * 3600.0  # s

at_option = click.option(
    "--at",
    "at",
    multiple=True,
    metavar="SITE_OR_ADDRESS",
    help="Site, or address of the broker, at which messages are read; may be repeated.",
)


def time_option(default: str | None) -> Callable[[_Function], _Function]:
    """The option for the time of a sample; ``None``: it has no end."""
    return click.option(
        "--for",
        "seconds",
        type=Duration(0.1, _LONGEST, "0.1 s to 24 hours"),
        default=default,
        show_default=default is not None,
        help="Time for which messages are read.",
    )


def read_sites(path: Path | None, variables: Mapping[str, str]) -> Inventory:
    """The site inventory of a file, or of ``speck local up``; an empty one if there is none."""
    from speck.schema.inventory import read_inventory

    found = path or default_sites()
    return read_inventory(found, variables) if found is not None else Inventory()


def addresses(at: Sequence[str], inventory: Inventory) -> list[str]:
    """The addresses of brokers, each once.  Raises :class:`InvalidInput` for an unknown site."""
    brokers = {**inventory.sites, **inventory.brokers}
    found = []
    for each in at:
        if "://" not in each and each not in brokers:
            known = f"one of {', '.join(sorted(brokers))}, or " if brokers else ""
            right = f"expected {known}an address such as tcp://HOST:1883; sites are those of --sites"
            raise InvalidInput([Fault(f"--at: {each!r} is not a site ({right})")], "at")
        found.append(brokers[each].broker_address if each in brokers else each)
    return list(dict.fromkeys(found))


@contextmanager
def subscribed(topic: str, brokers: Iterable[str], inventory: Inventory) -> Iterator[list[Feed]]:
    """Subscribe to a topic filter at some brokers.

    Raises :class:`InvalidInput` for a topic or a broker that cannot be read so, and a
    :class:`~speck.errors.BinderError` for a broker that cannot be reached.
    """
    from speck.binder import installed

    if fault := filter_fault(topic):
        raise InvalidInput([Fault(f"topic {topic!r} {fault}")], "topic")
    registry = installed()
    with ExitStack() as stack:
        feeds = []
        for address in brokers:
            kind = registry.broker_kind(address)
            if kind is None or kind.replays:
                right = "expected an MQTT broker, such as tcp://HOST:1883"
                raise InvalidInput([Fault(f"topics at {address!r} cannot be sampled ({right})")], "at")
            broker = kind.connect(address, inventory)
            stack.callback(broker.close)
            feeds.append(broker.subscribe([topic]))
            stack.callback(feeds[-1].close)
        yield feeds


def received(feeds: Sequence[Feed], seconds: float | None, limit: int | None = None) -> Messages:
    """The messages of some subscriptions while they come, until the time or the number is reached."""
    end = None if seconds is None else time.monotonic() + seconds
    count = 0
    while limit is None or count < limit:
        found = [message for feed in feeds for message in feed.receive()]
        for message in found:
            yield message
            count += 1
            if count == limit:
                return
        if end is not None and time.monotonic() > end:
            return
        if not found:
            time.sleep(_PAUSE)
