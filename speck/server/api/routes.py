"""The routes of compositions and jobs.

As in all modules of routes, each reads its request, calls the coordinator or a query, and answers plain data.
"""

from __future__ import annotations

from typing import Any

from speck.coordinator import Queries
from speck.core.change import Apply, ApplyJob, DeleteComposition, DeleteJob, Rollback
from speck.errors import InvalidInput
from speck.schema.compositions import load_job
from speck.schema.yaml.documents import read_document
from speck.server.api import parameters, schemas
from speck.server.api.blueprint import blueprint, request_body
from speck.server.api.changes import begun, load, plan_response, requested, respond, services
from speck.server.api.submission import submission


def _queries() -> Queries:
    return services().queries


@blueprint.route("/compositions", methods=["POST"])
@blueprint.doc(requestBody=request_body("Composition", yaml=True) | {"required": False})
@blueprint.arguments(parameters.ApplyQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.PlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="no such `plan` (any more)")
@blueprint.alt_response(
    409, schema=schemas.ProblemSchema, description="stale base_revision or `plan`, accepted already, or busy"
)
@blueprint.alt_response(410, schema=schemas.ProblemSchema, description="the `plan` has expired")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="every fault of the file")
def apply_composition(query: dict[str, Any]) -> Any:
    """Apply a composition, or plan it"""
    options = {"place": query["place"], "all_code": query["all_code"]}
    if query["plan"] and not query["dry_run"]:
        request, accept = requested(query), services().retained_plans.accept
        return begun(lambda: accept(query["plan"], request, **options), request, query["wait"])
    loaded = load(query["name"])
    change = Apply(loaded.composition, tuple(loaded.warnings), **options)
    if not query["dry_run"]:
        return respond(change, query)
    retained = services().retained_plans.show(change, requested(query), build=query["build"])
    return plan_response(retained.planned, query, plan=retained.id)


@blueprint.route("/compositions", methods=["GET"])
@blueprint.response(200, schemas.CompositionSummarySchema(many=True))
def list_compositions() -> Any:
    """All compositions"""
    return _queries().compositions()


@blueprint.route("/deleted-compositions", methods=["GET"])
@blueprint.response(200, schemas.DeletedCompositionSchema(many=True))
def list_deleted_compositions() -> Any:
    """The deleted compositions whose history is retained, the last deleted first"""
    return _queries().deleted_compositions()


@blueprint.route("/compositions/<name>", methods=["GET"])
@blueprint.response(200, schemas.CompositionViewSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_composition(name: str) -> Any:
    """One composition with its jobs and revisions"""
    return _queries().composition(name)


@blueprint.route("/compositions/<name>", methods=["DELETE"])
@blueprint.arguments(parameters.DeletionQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.PlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="stale base_revision, or busy")
def delete_composition(query: dict[str, Any], name: str) -> Any:
    """Stop and forget all jobs of a composition, or plan it"""
    return respond(DeleteComposition(name), query)


@blueprint.route("/compositions/<name>/revisions", methods=["GET"])
@blueprint.response(200, schemas.RevisionSchema(many=True))
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def list_revisions(name: str) -> Any:
    """A composition's history"""
    return _queries().revisions(name)


@blueprint.route("/compositions/<name>/revisions/<int:number>", methods=["GET"])
@blueprint.response(200, schemas.RevisionViewSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_revision(name: str, number: int) -> Any:
    """One revision with its jobs"""
    return _queries().revision(name, number)


@blueprint.route("/compositions/<name>/diff", methods=["GET"])
@blueprint.arguments(parameters.DifferenceQuery, location="query")
@blueprint.response(200, schemas.DifferenceSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_difference(query: dict[str, Any], name: str) -> Any:
    """The differences between two revisions, field by field"""
    return _queries().difference(name, query["before"], query["after"])


@blueprint.route("/compositions/<name>/code-diff", methods=["GET"])
@blueprint.arguments(parameters.DifferenceQuery, location="query")
@blueprint.response(200, schemas.DifferenceSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_code_difference(query: dict[str, Any], name: str) -> Any:
    """The differences between two revisions with the lines of code that differ, for the role write"""
    return _queries().code_difference(name, query["before"], query["after"])


@blueprint.route("/compositions/<name>/rollback", methods=["POST"])
@blueprint.arguments(parameters.RollbackQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.PlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="no such composition or revision")
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="stale base_revision, or busy")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="the reason why it cannot be restored")
def rollback_composition(query: dict[str, Any], name: str) -> Any:
    """Go back to an earlier revision, or plan it; that makes a new revision"""
    return respond(Rollback(name, query["revision"]), query)


@blueprint.route("/jobs", methods=["POST"])
@blueprint.doc(requestBody=request_body("Job", yaml=True))
@blueprint.arguments(parameters.JobQuery, location="query")
@blueprint.response(202, schemas.OperationSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema)
@blueprint.alt_response(422, schema=schemas.ProblemSchema)
def deploy_job(query: dict[str, Any]) -> Any:
    """Deploy and register one job"""
    coordinator = services().coordinator
    sent = submission("job", services().uploads)
    document = read_document(sent.text, format=sent.format)
    if document.faults:
        raise InvalidInput(document.faults, "job")
    job = load_job(
        document.value,
        inventory=coordinator.inventory.snapshot,
        registry=coordinator.registry,
        root=coordinator.settings.roots,
        sent=sent.sent,
    )
    return respond(ApplyJob(job, query["composition"]), query)


@blueprint.route("/jobs", methods=["GET"])
@blueprint.response(200, schemas.JobViewSchema(many=True))
def list_jobs() -> Any:
    """All jobs as last observed, with the time of the observation"""
    return _queries().jobs()


@blueprint.route("/jobs/<name>", methods=["GET"])
@blueprint.response(200, schemas.JobViewSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_job(name: str) -> Any:
    """One job, observed now"""
    return _queries().job(name)


@blueprint.route("/jobs/<name>/logs", methods=["GET"])
@blueprint.arguments(parameters.LogQuery, location="query")
@blueprint.response(200, schemas.LogSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(502, schema=schemas.ProblemSchema, description="its engine could not be asked")
def show_log(query: dict[str, Any], name: str) -> Any:
    """The last log lines of a job at its engine"""
    return _queries().log(name, query["lines"])


@blueprint.route("/jobs/<name>/curves", methods=["GET"])
@blueprint.response(200, schemas.CurvesSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_curves(name: str) -> Any:
    """The rates of a job over the last hour, a point a minute"""
    return _queries().curves(name)


@blueprint.route("/jobs/<name>", methods=["DELETE"])
@blueprint.arguments(parameters.JobDeletionQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.PlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="stale base_revision, or busy")
def delete_job(query: dict[str, Any], name: str) -> Any:
    """Stop and forget one job, or plan it"""
    return respond(DeleteJob(name), query)


@blueprint.route("/rates", methods=["GET"])
@blueprint.response(200, schemas.RatesSchema)
def show_rates() -> Any:
    """The rates of all jobs: messages/s in and out, messages waiting, duration of batches"""
    return _queries().rates()
