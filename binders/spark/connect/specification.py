"""The specification of a job's query on a Connect server."""

from __future__ import annotations

import uuid
from pathlib import Path

from binders.spark.connect.grpc_client import Endpoint
from binders.spark.query.options import spec_of
from binders.spark.query.spec import ConnectQuerySpec
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt


def session_of(attempt: Attempt) -> str:
    """The UUID of an attempt's session: the attempt alone identifies its query."""
    return str(uuid.UUID(hex=attempt.id))


def query_spec(
    job: Job, attempt: Attempt, address: str, endpoint: Endpoint, inventory: Inventory
) -> ConnectQuerySpec:
    """The query that an attempt starts on the server at this address."""
    keys, path = endpoint.keys, str(Path(job.job_path).absolute())
    return ConnectQuerySpec(
        **spec_of(job, attempt, inventory.engine(address), inventory, path).to_dict(),
        host=endpoint.host,
        port=endpoint.port,
        token=keys.token,
        ca_file=keys.ca_file,
        certificate_file=keys.certificate_file,
        key_file=keys.key_file,
        tls=keys.tls,
        session=session_of(attempt),
    )
