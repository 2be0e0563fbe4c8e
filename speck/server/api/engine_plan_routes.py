"""The route for the plan by which an engine executes a job."""

from __future__ import annotations

import re
from typing import Any

from speck.server.api import schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.middleware import authentication
from speck.server.tokens import Role


@blueprint.route("/jobs/<name>/engine-plan", methods=["GET"])
@blueprint.response(200, schemas.EnginePlanSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="the job has no plan that can be read")
@blueprint.alt_response(502, schema=schemas.ProblemSchema, description="its engine could not be asked")
def show_engine_plan(name: str) -> Any:
    """The plan by which its engine executes a job, read from there now, with features for learning"""
    found = services().engine_plans.of_job(name)
    if authentication.owner_data()["role"] == Role.READ.value:
        # They have expressions of the job's code, which the role read is not shown elsewhere either.
        nodes = [node | {"description": "", "name": operator_name(node["name"])} for node in found["nodes"]]
        tasks = {task: operator_name(text) for task, text in found["tasks"].items()}
        found = found | {"nodes": nodes, "tasks": tasks}
    return found


def operator_name(name: str) -> str:
    """The name up to the expressions that Flink's tables append: ``Calc(select=[a])[3]`` is ``Calc``."""
    return re.split(r"[(\[]", name, maxsplit=1)[0].strip()
