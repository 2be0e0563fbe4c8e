"""The routes.  Each reads its request, calls the coordinator or a query, and answers plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from flask import Response, current_app
from flask_smorest import Blueprint

from speck.apply.operation import Operation
from speck.coordinator import Coordinator, Queries, SiteQueries
from speck.core.change import Apply, ApplyJob, DeleteComposition, DeleteJob, Rollback
from speck.errors import InvalidInput
from speck.schema.compositions import load_job
from speck.schema.yaml.documents import read_document
from speck.server.api import exposition, parameters, problems, schemas
from speck.server.api.changes import begun, load, plan_response, requested, respond, services
from speck.server.api.live import Live
from speck.server.api.submission import FORM, JSON, submission
from speck.server.middleware import authentication
from speck.server.middleware.authentication import author

blueprint = Blueprint("speck", __name__, description="Jobs, compositions, operations")

_EXAMPLE = {
    "job_name": "A",
    "spe_address": "http://172.16.39.7:8081/",
    "source_broker": "tcp://172.16.39.7:1883",
    "source_topic": "T-1",
    "sink_broker": "tcp://172.16.192.18:1883",
    "sink_topic": "T-C-filter",
    "entry_class": "package.ExampleJob",
    "job_path": "jars_and_apps/test-1.jar",
}
_STREAM_PAUSE = 15.0  # s; an idle event stream sends a comment so often


def request_body(schema: str, *, yaml: bool) -> dict[str, Any]:
    """The description of a request's body, with an example."""
    example = _EXAMPLE if schema == "Job" else {"name": "figure-3", "jobs": [_EXAMPLE]}
    content: dict[str, Any] = {
        JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    }
    if yaml:
        content["application/yaml"] = {"schema": {"type": "string"}}
    content[FORM] = {
        "schema": {
            "type": "object",
            "description": "its text, and for each job_path in it a file, or the text sha256:HASH of one "
            "that is here; with a header X-Requested-By",
            "properties": {schema.lower(): {"type": "string", "format": "binary"}},
            "required": [schema.lower()],
            "additionalProperties": {"type": "string", "format": "binary"},
        }
    }
    return {"required": True, "content": content}


def _coordinator() -> Coordinator:
    return services().coordinator


def _queries() -> Queries:
    return services().queries


def _sites() -> SiteQueries:
    return services().sites


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
    coordinator = _coordinator()
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
    """The last lines that a job's engine has of it"""
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


@blueprint.route("/operations", methods=["GET"])
@blueprint.arguments(parameters.OperationsQuery, location="query")
@blueprint.response(200, schemas.OperationSummarySchema(many=True))
def list_operations(query: dict[str, Any]) -> Any:
    """The stored operations, newest first, without their actions"""
    return _queries().operations.last(**query)


@blueprint.route("/operations/<identifier>", methods=["GET"])
@blueprint.response(200, schemas.OperationSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_operation(identifier: str) -> Any:
    """The progress of one apply, action by action"""
    return _queries().operations.data(identifier)


@blueprint.route("/operations/<identifier>/events", methods=["GET"])
@blueprint.response(200, content_type="text/event-stream", description="the operation at each change")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def follow_operation(identifier: str) -> Response:
    """The progress of one apply as server-sent events, until it ends"""
    operation = _queries().operations.live(identifier)
    if operation is None:
        ended = _queries().operations.data(identifier)
        return _stream(iter((_event(ended),)))
    return _stream(_follow(operation, authentication.token_check()))


def _stream(events: Iterator[str]) -> Response:
    """Events as they come; the header keeps a proxy (nginx) from buffering them."""
    headers = {"X-Accel-Buffering": "no"}
    return Response(events, content_type="text/event-stream", headers=headers)


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _follow(operation: Operation, holds: Callable[[], bool]) -> Iterator[str]:
    seen = -1
    while True:
        changed = operation.wait_change(seen, _STREAM_PAUSE)
        if not holds():
            return
        if not changed:
            yield ": still here\n\n"
            continue
        seen = operation.version
        data = operation.to_dict()
        yield _event(data)
        if data["state"] != "running":
            return


@blueprint.route("/live", methods=["GET"])
@blueprint.arguments(parameters.LiveHeaders, location="headers")
@blueprint.response(200, content_type="text/event-stream", description="the changes (docs/rest.md)")
@blueprint.alt_response(503, schema=schemas.ProblemSchema, description="too many clients are connected")
def follow_live(headers: dict[str, Any]) -> Response:
    """Jobs, operations, events and sites as server-sent events: all at first, then what changes"""
    live = _live()
    if not live.enter():
        detail = f"{live.most} clients are connected, which is the limit (try again, or poll the other paths)"
        return problems.problem(503, detail, headers={"Retry-After": "10"})
    response = _stream(live.follow(headers["last_event_id"], authentication.token_check()))
    response.headers["Cache-Control"] = "no-store"
    response.call_on_close(live.leave)
    return response


@blueprint.route("/events", methods=["GET"])
@blueprint.arguments(parameters.EventsQuery, location="query")
@blueprint.response(200, schemas.EventSchema(many=True))
def list_events(query: dict[str, Any]) -> Any:
    """The audit log: intents with author and reason, and their outcomes"""
    return _queries().events(**query)


@blueprint.route("/sites", methods=["GET"])
@blueprint.response(200, schemas.SiteViewSchema(many=True))
def list_sites() -> Any:
    """The sites of the inventory, and their reachability"""
    return _sites().sites()


@blueprint.route("/sites/check", methods=["GET"])
@blueprint.response(200, schemas.CheckupSchema(many=True))
def check_sites() -> Any:
    """Each engine and broker of the inventory: version, limits, clock, faults and their remedies"""
    return _sites().checkups()


@blueprint.route("/sites/check", methods=["POST"])
@blueprint.response(200, schemas.CheckupSchema(many=True))
def check_sites_from_engines() -> Any:
    """The same, and each engine tries to reach each broker as a job does, which takes a slot for a moment"""
    return _sites().checkups_from_engines()


@blueprint.route("/doctor", methods=["GET"])
@blueprint.response(200, schemas.DiagnosisSchema(many=True))
def diagnose() -> Any:
    """Findings that may lose messages or keep jobs from going on, with remedies"""
    return services().doctor.diagnose()


@blueprint.route("/left-behind", methods=["GET"])
@blueprint.response(200, schemas.LeftoverSchema(many=True))
def list_left_behind() -> Any:
    """Abandoned copies and sessions, ended when their engine and broker answer again, and orphans"""
    return _sites().left_behind()


@blueprint.route("/left-behind", methods=["DELETE"])
@blueprint.arguments(parameters.ForgettingQuery, location="query")
@blueprint.response(200, schemas.LeftoverSchema(many=True), description="the remaining ones")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="nothing is abandoned there")
def forget_left_behind(query: dict[str, Any]) -> Any:
    """Forget abandoned copies and sessions at places that never come back"""
    _coordinator().reaper.forget(query["place"], author(query["author"]))
    return _sites().left_behind()


@blueprint.route("/whoami", methods=["GET"])
@blueprint.response(200, schemas.OwnerSchema)
def show_owner() -> Any:
    """The owner of the request's token, and its role"""
    return authentication.owner_data()


@blueprint.route("/healthz", methods=["GET"])
@blueprint.response(200, schemas.HealthSchema)
@blueprint.alt_response(503, schema=schemas.ProblemSchema, description="only a restart can repair it")
def healthz() -> Response:
    """Liveness; `store` has the reason why the store cannot be written, if it cannot"""
    if faults := [*_coordinator().faults(), *_live().faults()]:
        return problems.problem(503, "; ".join(faults))
    failure = _coordinator().store.failure
    data: dict[str, Any] = {"status": "ok"} | ({"store": str(failure)} if failure else {})
    if (primary := services().primary) is not None:
        data["standby"] = primary.status()
    return Response(json.dumps(data), content_type=JSON)


@blueprint.route("/readyz", methods=["GET"])
@blueprint.response(200, schemas.HealthSchema)
@blueprint.alt_response(
    503, schema=schemas.ProblemSchema, description="the reasons why the server is not ready"
)
def readyz() -> Response:
    """Readiness: interrupted operations resumed, engines observed, store writable"""
    if reasons := [*_coordinator().faults(), *_coordinator().unready_reasons()]:
        return problems.problem(503, "; ".join(reasons), headers={"Retry-After": "2"})
    return Response(json.dumps({"status": "ok"}), content_type=JSON)


def _live() -> Live:
    live: Live = current_app.extensions["live"]
    return live


@blueprint.route("/store/check", methods=["GET"])
@blueprint.response(200, schemas.FindingSchema(many=True))
@blueprint.alt_response(503, schema=schemas.ProblemSchema)
def check_store() -> Any:
    """The faults of the store: records, references, and the code stored beside it"""
    return _queries().check_store()


@blueprint.route("/store/backup", methods=["GET"])
@blueprint.response(200, content_type="application/gzip", description="a backup, whole when it ends well")
@blueprint.alt_response(503, schema=schemas.ProblemSchema)
def back_up_store() -> Response:
    """The store as it is at this moment, with the code stored beside it, and without any secret"""
    return Response(_queries().backup(), content_type="application/gzip")


@blueprint.route("/metrics", methods=["GET"])
@blueprint.response(200, content_type="text/plain", description="Prometheus's text format")
def show_metrics() -> Response:
    """Metrics for Prometheus"""
    return Response(exposition.exposition(services()), content_type=exposition.CONTENT_TYPE)
