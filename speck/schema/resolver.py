"""From the valid fields of jobs to jobs: sites filled in, addresses canonical, code found and hashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speck.binder import Registry
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.schema.code import CodeChecker, SentFile
from speck.schema.fault_report import FaultReport
from speck.schema.job_resolution import JobResolution
from speck.schema.places import Places

NO_PARTITIONS: Mapping[str, int] = MappingProxyType({})  # by topic


@dataclass(frozen=True)
class Environment:
    """The sites, the installed binders and the directories of job files (``roots``) of a server.

    ``sent`` are the files that came with a document, by their path in it.
    """

    inventory: Inventory
    registry: Registry
    roots: tuple[Path, ...]
    sent: Mapping[str, SentFile] = field(default_factory=dict)


class Resolver:
    """Resolves the jobs of one document; ``partitions`` are declared there, by topic."""

    def __init__(self, environment: Environment, partitions: Mapping[str, int] = NO_PARTITIONS) -> None:
        self.partitions = partitions
        self.places = Places(environment.inventory, environment.registry)
        self.code = CodeChecker(environment.roots, environment.registry, environment.sent)

    def has_panes(self, job: Job) -> bool:
        """True if the engine of a job has :attr:`~speck.binder.QueryRunner.panes`."""
        kind = self.places.registry.engine_kind(job.engine, job.spe_address)
        return kind is not None and kind.queries is not None and kind.queries.panes

    def job(self, fields: Mapping[str, Any], report: FaultReport) -> Job | None:
        """The job of these fields; see :class:`~speck.schema.job_resolution.JobResolution`."""
        return JobResolution(self.places, self.code, self.partitions, fields, report).job()
