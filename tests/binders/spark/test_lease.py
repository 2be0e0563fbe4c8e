"""The lease of an attempt: the master's answers on which a driver may take it over from another one."""

from __future__ import annotations

from typing import Any

import pytest

from binders.spark.standalone.lease import AttemptLease, OwnerUnknown
from testbed.doubles.engine_answers import AnswerServer, serving

OWNER = "driver-20261130120000-0000"
# Of Spark's Master, whose REST server answers with status 200 in each of its states.
RECOVERS = (
    "Exception from the cluster:\njava.lang.Exception: Current state is not alive: RECOVERING. "
    "Can only request driver status in ALIVE state.\n\torg.apache.spark.deploy.master.Master$$anonfun"
)


class Leases(AttemptLease):
    """The lease of an attempt that ``OWNER`` has; ``owner`` is the present owner."""

    def __init__(self, rest: str) -> None:
        self._checkpoint, self._path = "/c", str
        self._rest, self._token = rest, None
        self.owner = OWNER

    def _create(self, place: Any, driver: str) -> bool:
        return False

    def _read(self, place: Any) -> str:
        return self.owner

    def _write(self, place: Any, driver: str, *, overwrite: bool) -> None:
        self.owner = driver


def acquired(answer: dict[str, Any]) -> tuple[str | None, str]:
    """The other driver that holds the lease, and its owner afterwards, by the master's answer."""
    with serving(AnswerServer({f"/v1/submissions/status/{OWNER}": answer})) as port:
        leases = Leases(f"http://127.0.0.1:{port}")
        return leases.acquire("a", "driver-new"), leases.owner


@pytest.mark.parametrize(
    ("answer", "holder"),
    [
        ({"success": True, "driverState": "RUNNING"}, OWNER),
        ({"success": True, "driverState": "ERROR", "message": "Exception from the cluster: why"}, OWNER),
        ({"success": True, "driverState": "RELAUNCHING"}, None),
        ({"success": False}, None),
    ],
)
def test_the_lease_passes_on_if_its_owner_will_not_run_again(
    answer: dict[str, Any], holder: str | None
) -> None:
    assert acquired(answer) == (holder, holder or "driver-new")


def test_the_lease_stays_while_the_master_recovers() -> None:
    with pytest.raises(OwnerUnknown, match="Current state is not alive: RECOVERING") as caught:
        acquired({"success": False, "message": RECOVERS})
    assert "\n" not in str(caught.value)
