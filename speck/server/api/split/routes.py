"""The routes of splits by keys, which are added to the blueprint of all routes."""

from __future__ import annotations

from typing import Any

from speck.coordinator.queries.splits import split_data, splits_data
from speck.server.api import parameters, schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.api.split.schemas import SplitSchema, WindowSchema


@blueprint.route("/splits", methods=["GET"])
@blueprint.response(200, SplitSchema(many=True))
def list_splits() -> Any:
    """All splits by keys, with their jobs as last observed"""
    return _splits()


@blueprint.route("/splits/<name>", methods=["GET"])
@blueprint.response(200, SplitSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_split(name: str) -> Any:
    """One split by keys, with its jobs as last observed"""
    return split_data(_splits(), name)


@blueprint.route("/splits/<name>/windows", methods=["GET"])
@blueprint.arguments(parameters.WindowsQuery, location="query")
@blueprint.response(200, WindowSchema(many=True))
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def list_windows(query: dict[str, Any], name: str) -> Any:
    """The last windows of the measured work of a split's combiners, the oldest first"""
    queries = services().queries
    split_data(splits_data(queries.jobs(), (), queries.splits), name)
    return queries.splits.windows(name, query["after"])


def _splits() -> list[dict[str, Any]]:
    queries = services().queries
    return splits_data(queries.jobs(), queries.rates()["jobs"], queries.splits)
