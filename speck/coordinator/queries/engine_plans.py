"""The plans by which engines execute jobs, read on request, with their features for learning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from speck.binder import Capability
from speck.binder.pool import BinderPool
from speck.coordinator.shared_calls import SharedCalls
from speck.errors import Conflict
from speck.observe.measures import Measures
from speck.observe.profile.estimates import VertexLoad
from speck.observe.sampler import Sampler
from speck.placement.features import features_of
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class EnginePlans:
    """Reads the execution plans of running jobs at their engines.  ``clock`` gives Unix time, s."""

    deployments: Deployments
    pool: BinderPool
    sampler: Sampler
    measures: Measures
    clock: Callable[[], float]
    _calls: SharedCalls = field(default_factory=SharedCalls, repr=False)

    def of_job(self, name: str) -> dict[str, Any]:
        """The plan of a job that runs, and its features; sampling continues for a minute.

        An engine that is asked for the plan of a job already is not asked again.

        Raises :class:`~speck.errors.NotFound` for an unknown job, :class:`~speck.errors.Conflict` for one
        without a plan, and the :class:`~speck.errors.BinderError` of an engine that does not give it.
        """
        return self._calls.of(name, partial(self._of_job, name))

    def _of_job(self, name: str) -> dict[str, Any]:
        snapshot = self.deployments.snapshot_of_job(name)
        form, attempt = snapshot.forms[name], snapshot.attempt(name)
        if attempt is None or attempt.handle is None:
            raise Conflict(f"job {name!r} has no plan: it does not run at any engine (start it first)")
        engine = self.pool.engine(form)
        if Capability.PLANS not in engine.capabilities:
            raise Conflict(f"job {name!r}: the binder for {form.engine} does not report the engine's plan")
        plan = engine.engine_plan(attempt.handle)
        self.sampler.measure()
        estimate = self.measures.jobs([form])[name].estimate
        return {
            "job_name": name,
            "engine": form.engine,
            "address": form.spe_address,
            "attempt": attempt.attempt.number,
            "observed_at": self.clock(),
            **plan.to_dict(),
            "features": features_of(plan, estimate.profile, selectivities(estimate.vertices)),
        }


def selectivities(vertices: Iterable[VertexLoad]) -> dict[str, float]:
    """The rows out per row in of each vertex that takes rows in, by its name."""
    return {each.name: each.rate_out / each.rate_in for each in vertices if each.rate_in > 0}
