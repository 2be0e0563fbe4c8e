"""A server that is restarted: what it refuses while it shuts down is asked again of its successor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from speck.client.pair import is_shutting_down, is_unsent

if TYPE_CHECKING:
    import requests

RESTART = 30.0  # s, for running operations to end, and the server to start again
_PAUSE = 0.5  # s between two tries while no server listens


def through_restart(
    request: Callable[[], requests.Response],
    *,
    once: bool,
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> requests.Response:
    """The answer to ``request()``, made again for ``patience`` s while the server shuts down and restarts.

    The last refusal, if the server is not back by then.  With ``once`` a request whose answer was lost is not
    made again.  Raises the errors of requests.
    """
    import requests

    answer, until = request(), clock() + patience
    pause = _asked(answer)
    while is_shutting_down(answer) and (left := until - clock()) > 0:
        sleep(min(pause, left))
        try:
            answer = request()
            pause = _asked(answer)
        except requests.ConnectionError as error:
            if once and not is_unsent(error):
                raise
            pause = _PAUSE
    return answer


def _asked(answer: requests.Response) -> float:
    """The time to wait that an answer names, s."""
    found = answer.headers.get("Retry-After", "")
    return float(found) if found.isdecimal() else _PAUSE
