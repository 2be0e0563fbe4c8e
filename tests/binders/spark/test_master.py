"""The answers of a standalone master to the submission of a driver."""

from __future__ import annotations

import pytest

from binders.spark.standalone.master import Master
from speck.core.inventory import Engine
from speck.errors import BinderError, Rejected, Unreachable
from testbed.doubles.engine_answers import AnswerServer, serving

# Of Spark's Master, whose REST server answers with status 200 in each of its states.
STANDBY = "Current state is not alive: STANDBY. Can only accept driver submissions in ALIVE state."


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (STANDBY, Unreachable),  # a later try at its successor may succeed
        ("Driver memory is not a number", Rejected),
    ],
)
def test_a_driver_is_not_rejected_by_a_master_that_has_just_stopped_leading(
    message: str, error: type[BinderError]
) -> None:
    answers = {"/v1/submissions/create": {"success": False, "message": message}}
    with serving(AnswerServer(answers)) as port:
        address = f"spark://127.0.0.1:{port}"
        master = Master(address, Engine(spe_address=address, rest_port=port, ui_port=port))
        with pytest.raises(error, match=message):
            master.create({})
        master.close()
