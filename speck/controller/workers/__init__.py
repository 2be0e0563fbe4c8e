"""The controller of workers: their desired number at each engine that scales, and the hooks that set it."""

from __future__ import annotations

from speck.controller.workers.controller import PERIOD, WorkerController
from speck.controller.workers.group import WorkerGroup

__all__ = ["PERIOD", "WorkerController", "WorkerGroup"]
