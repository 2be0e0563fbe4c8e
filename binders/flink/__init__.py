"""The binder of Flink, and clusters on this machine."""

from __future__ import annotations

from binders.flink.engine import connect_engine
from binders.flink.local.server import FLINK_CLUSTER
from binders.flink.submission.code_check import check_code, parameters
from speck.binder import EngineKind

# With 8 requests at once a hundred jobs were submitted in 2.2 s, with one in 6.7 s, with 16 in 1.9 s.
BOUND = 8

STARTUP_SECONDS = 2.0  # s; a job whose tasks fail at once is being restarted by then

FLINK = EngineKind(
    "flink",
    "flink",
    ("http", "https"),
    check_code,
    connect_engine,
    bound=BOUND,
    startup_seconds=STARTUP_SECONDS,
    local=FLINK_CLUSTER,
    parameters=parameters,
)
