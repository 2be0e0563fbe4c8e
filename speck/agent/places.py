"""The inventory of a site: its own engines and broker, and the brokers elsewhere that its jobs use.

The coordinator sends the address and the login of those with each job.  A password is kept in a file of its
own, which only the agent's user may read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from speck.core.durable_files import replace_file
from speck.core.inventory import Broker, Inventory, JobLogin, Login, Secret, Site
from speck.errors import BinderError
from speck.link.codec import decode, encode
from speck.link.places import PlaceOfJobs

RECENT = 3600.0  # s, for which the login to a broker is kept that no job uses

_log = logging.getLogger(__name__)


class SiteInventory(Inventory):
    """The site, and the brokers that were learned; the site's own entries count first.

    ``clock`` is steady, s.
    """

    def __init__(self, site: Site, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__({site.name: site})
        object.__setattr__(self, "_file", directory / "brokers.json")
        object.__setattr__(self, "_secrets", directory / "secrets")
        object.__setattr__(self, "_clock", clock)
        object.__setattr__(self, "_learning", threading.Lock())
        object.__setattr__(self, "_times", {})
        object.__setattr__(self, "_is_damaged", False)
        object.__setattr__(self, "_learned", self._read())
        self._secrets.mkdir(mode=0o700, parents=True, exist_ok=True)

    on_site = True
    _file: Path
    _secrets: Path
    _clock: Callable[[], float]
    _learning: threading.Lock
    _times: dict[str, float]  # when brokers were sent last, since the start
    _is_damaged: bool  # the file, or it is of a later version
    _learned: Mapping[str, Broker]  # replaced and never changed

    def broker(self, address: str) -> Broker:
        """See :meth:`speck.core.inventory.Inventory.broker`."""
        own = super().broker(address)
        if address in self._brokers:
            return own
        by_jobs = (each for each in self._learned.values() if each.address_of_jobs == address)
        return self._learned.get(address) or next(by_jobs, own)

    def address_here(self, address: str) -> str:
        """The address by which the agent reaches a broker: of one elsewhere, that of the jobs.

        The coordinator's own address of a broker elsewhere may mean another machine at the site.
        """
        return address if address in self._brokers else self.job_broker_address(address)

    def learn(self, places: Iterable[PlaceOfJobs]) -> None:
        """Keep the brokers of a job.  Raises :class:`~speck.errors.BinderError` for a disk that is full."""
        try:
            with self._learning:
                found = {each.broker_address: self._broker(each) for each in places}
                self._times.update(dict.fromkeys(found, self._clock()))
                if any(each != self._learned.get(address) for address, each in found.items()):
                    self._write({**self._learned, **found})
        except OSError as error:
            raise BinderError(f"the agent cannot store the brokers of a job: {error.strerror}") from error

    def retain(self, used: Collection[str]) -> None:
        """Forget the brokers, and their passwords, that no job uses; not those that were sent recently.

        A job is checked before it is submitted.  Raises :class:`OSError`.
        """
        with self._learning:
            if self._is_damaged:
                return
            oldest = self._clock() - RECENT
            needed = {*used, *(address for address, at in self._times.items() if at >= oldest)}
            kept = {address: each for address, each in self._learned.items() if address in needed}
            if len(kept) < len(self._learned):
                self._write(kept)
            passwords = {_password_name(each) for each in kept.values()}
            for path in self._secrets.iterdir():
                if path.name not in passwords:
                    path.unlink(missing_ok=True)

    def _write(self, learned: Mapping[str, Broker]) -> None:
        """Store these brokers; they are used from then on."""
        data = {"format": 1, "brokers": [encode(each) for each in learned.values()]}
        replace_file(self._file, json.dumps(data).encode())
        object.__setattr__(self, "_learned", learned)
        object.__setattr__(self, "_is_damaged", False)

    def _broker(self, place: PlaceOfJobs) -> Broker:
        password = None if place.password is None else self._secret(place.password)
        login = JobLogin(
            username=place.username,
            password=password,
            password_file=place.password_file,
            ca_file=place.ca_file,
            certificate_file=place.certificate_file,
            key_file=place.key_file,
            sasl=place.sasl,
        )
        own = Login(
            username=place.username,
            password=password or (Secret(f"file:{place.password_file}") if place.password_file else None),
            ca_file=place.ca_file,
            certificate_file=place.certificate_file,
            key_file=place.key_file,
            sasl=place.sasl,
        )
        broker = Broker(broker_address=place.broker_address, broker_login=own, job_login=login)
        return replace(broker, job_broker_address=place.job_broker_address)

    def _secret(self, value: str) -> Secret:
        path = self._secrets / hashlib.sha256(value.encode()).hexdigest()[:32]
        if not path.exists():
            replace_file(path, value.encode())
        return Secret(f"file:{path}")

    def _read(self) -> dict[str, Broker]:
        if not self._file.exists():
            return {}
        try:
            data = json.loads(self._file.read_bytes())
            found = [decode(Broker, each, "broker") for each in data["brokers"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.error("%s is left alone, until the coordinator sends it again: %s", self._file, error)
            object.__setattr__(self, "_is_damaged", True)
            return {}
        return {each.broker_address: each for each in found}


def _password_name(broker: Broker) -> str:
    """The name of the file with the password to a broker; empty for one without."""
    login = broker.job_login
    password = None if login is None else login.password
    return "" if password is None else Path(password.file or "").name
