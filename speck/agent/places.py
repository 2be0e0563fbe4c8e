"""The inventory of a site: its own engines and broker, and the brokers elsewhere that its jobs use.

The coordinator sends the address and the login of those with each job.  A password is kept in a file of its
own, which only the agent's user may read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from speck.core.durable_files import replace_file
from speck.core.inventory import Broker, Inventory, JobLogin, Login, Secret, Site
from speck.link.codec import decode, encode
from speck.link.places import PlaceOfJobs

_log = logging.getLogger(__name__)


class SiteInventory(Inventory):
    """The site, and the brokers that were learned; the site's own entries count first."""

    def __init__(self, site: Site, directory: Path) -> None:
        super().__init__({site.name: site})
        object.__setattr__(self, "_file", directory / "brokers.json")
        object.__setattr__(self, "_secrets", directory / "secrets")
        object.__setattr__(self, "_learning", threading.Lock())
        object.__setattr__(self, "_learned", self._read())
        self._secrets.mkdir(mode=0o700, parents=True, exist_ok=True)

    _file: Path
    _secrets: Path
    _learning: threading.Lock
    _learned: dict[str, Broker]

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
        """Keep the brokers of a job."""
        with self._learning:
            changed = {
                each.broker_address: found
                for each in places
                if (found := self._broker(each)) != self._learned.get(each.broker_address)
            }
            if changed:
                self._learned.update(changed)
                data = {"format": 1, "brokers": [encode(each) for each in self._learned.values()]}
                replace_file(self._file, json.dumps(data).encode())

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
            return {}
        return {each.broker_address: each for each in found}
