"""The brokers that a job uses, as its site needs them: the address and the login of the jobs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.link.codec import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOfJobs:
    """A broker and the jobs' login to it, with the password itself; the files are at the job's engine."""

    broker_address: str
    job_broker_address: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    sasl: str | None = None


def places_of(job: Job, inventory: Inventory, own: str = "") -> list[Mapping[str, Any]]:
    """The brokers of a job, without that of its site (``own``), whose login the site has itself.

    Raises :class:`~speck.errors.SecretUnavailable`.
    """
    elsewhere = {job.source_broker, job.sink_broker} - {own}
    return [encode(_place(address, inventory)) for address in sorted(elsewhere)]


def _place(address: str, inventory: Inventory) -> PlaceOfJobs:
    broker = inventory.broker(address)
    login = broker.login_of_jobs()
    return PlaceOfJobs(
        broker_address=broker.broker_address,
        job_broker_address=broker.job_broker_address,
        username=login.username,
        password=login.password.reveal() if login.password else None,
        password_file=login.password_file,
        ca_file=login.ca_file,
        certificate_file=login.certificate_file,
        key_file=login.key_file,
        sasl=login.sasl,
    )
