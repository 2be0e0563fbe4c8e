"""Has brokers that store their messages as logs delete those that no job needs any more.

A broker with queues deletes a message once its readers have it.  One with logs would keep all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from speck.binder.pool import BinderPool
from speck.errors import SpeckError
from speck.loop import Loop

_log = logging.getLogger(__name__)

PERIOD = 60.0  # s


@dataclass
class Keeping:
    """Has brokers delete messages in the background; ``brokers`` gives the addresses of those of all jobs."""

    pool: BinderPool
    brokers: Callable[[], Iterable[str]]
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = Loop("keeping", "a deletion of messages that no job needs", self.round)

    def round(self) -> float:
        """Ask each broker once; one that does not answer is asked again in the next round."""
        for address in sorted(set(self.brokers())):
            try:
                self.pool.broker(address).purge()
            except SpeckError as error:
                _log.debug("%s was not asked to delete messages: %s", address, error)
            except Exception:  # a defect at one broker must not fill the disks of the others
                _log.exception("%s was not asked to delete messages", address)
        return PERIOD
