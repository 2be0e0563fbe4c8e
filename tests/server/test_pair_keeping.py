"""The loops of a primary."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from speck.server.pair.keeping import kept
from speck.standby.messages import Timing
from testbed.benches.pair import InMemoryPair


def test_the_lease_is_renewed_at_the_standby_while_that_is_copied(tmp_path: Path) -> None:
    """A large store takes minutes; the witness may be away for as long."""
    pair, done, renewals = InMemoryPair(tmp_path), threading.Event(), list[int]()
    pair.primary.lease.timing = Timing(renewal=0.01)

    def passed(operation: str) -> None:
        if operation == "before records" and not done.is_set():
            before, until = pair.to_standby.sent.count("renew"), time.monotonic() + 10
            while (found := pair.to_standby.sent.count("renew") - before) < 3 and time.monotonic() < until:
                time.sleep(0.01)  # the copy stands still here, while the other loop renews
            renewals.append(found)
            done.set()

    pair.to_standby.passed = passed
    with kept(pair.primary, pair.store, set):
        assert done.wait(20)
    pair.close()
    assert renewals[0] >= 3
