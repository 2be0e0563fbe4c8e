"""Input jobs of a query whose new form would write messages that it reads again in other frames.

The plan is refused while such a job does not run.  One that ends after that, before it is stopped, leaves a
checkpoint: what its former form has written since then would come again, and the rest of the query could not
recognise it.
"""

from __future__ import annotations

from speck.core.job import Job
from speck.core.runtime import State
from speck.errors import Rejected
from speck.sql.program import parsed
from speck.sql.signature import frames_end_elsewhere, merges_otherwise


def refuse_repetition(former: Job, job: Job, state: State | None) -> None:
    """Raise :class:`~speck.errors.Rejected` for a form that may not continue from the former one's state."""
    if not (former.query and job.query) or (state is not None and not state.periodic):
        return
    before, after = (parsed(str(each.query["program"])) for each in (former, job))
    bounds = job.upgrade == "stateful" and frames_end_elsewhere(before, after)
    if merges_otherwise(before, after) or bounds:
        left = "no state" if state is None else f"only the checkpoint {state.location!r}"
        raise Rejected(
            f"job {job.job_name!r} left {left}: in its new form, rows since then would be counted twice "
            "(apply again while it runs)",
            address=job.spe_address,
        )
