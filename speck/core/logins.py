"""Marks of the logins of jobs to brokers: by them, a plan finds the jobs that run with a former one.

A mark is kept with each attempt.  It has the user's name, and a digest of the other fields, which are paths
and references: no secret, and nothing from which one could be derived.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from speck.core.inventory import Broker, JobLogin
from speck.core.job import Job

_DIGITS = 8  # hexadecimal

Marks = tuple[str, str]  # of the source broker, and of the sink broker
NO_LOGINS: Mapping[str, str] = MappingProxyType({})  # a login that is not known is no reason to restart a job


def login_mark(broker: Broker) -> str:
    """The mark of the login, and of the address, by which jobs reach a broker; empty if both are default."""
    login = broker.login_of_jobs()
    if login == JobLogin() and broker.job_broker_address is None:
        return ""
    password = None if login.password is None else login.password.reference
    files = (login.password_file, login.ca_file, login.certificate_file, login.key_file)
    text = json.dumps([broker.address_of_jobs, password, *files, login.sasl])
    return f"{login.username or ''} {hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


def login_changes(job: Job, before: Marks | None, now: Mapping[str, str]) -> str:
    """The brokers at which a copy of a job has a former login, in words; empty if it has that of now.

    ``before`` are the marks with which it started (``None``: not known), ``now`` are those by broker, of the
    brokers of which they are known.
    """
    if before is None:
        return ""
    marks = dict(zip((job.source_broker, job.sink_broker), before, strict=True))
    texts = (_change(each, mark, now[each]) for each, mark in marks.items() if each in now)
    return "; ".join(filter(None, texts))


def _change(broker: str, before: str, after: str) -> str:
    old, new = before.rpartition(" ")[0], after.rpartition(" ")[0]
    if before == after:
        return ""
    if old != new:
        return f"the user of jobs at {broker} changed from {_user(old)} to {_user(new)}"
    return f"the login of jobs at {broker} changed"


def _user(name: str) -> str:
    return repr(name) if name else "none"
