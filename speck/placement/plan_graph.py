"""The plan of an engine as a graph of networkx, which the extra ``speck[graph]`` installs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from speck.core.engine_plan import EnginePlan
from speck.errors import SpeckError

if TYPE_CHECKING:
    import networkx as nx


def to_networkx(plan: EnginePlan) -> nx.MultiDiGraph[str]:
    """The operators by id and the edges, with their fields as attributes; those that are unknown are absent.

    Classes and strategies are their names.  Two operators may have several edges between them.  Raises
    :class:`~speck.errors.SpeckError` without networkx.
    """
    try:
        import networkx as nx
    except ModuleNotFoundError as error:
        message = (
            "this format needs the package networkx, which is not installed (pip install 'speck[graph]')"
        )
        raise SpeckError(message) from error
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for node in plan.nodes:
        graph.add_node(node.id, **_attributes(node, "id"))
    for edge in plan.edges:
        graph.add_edge(edge.source, edge.target, **_attributes(edge, "source", "target"))
    return graph


def _attributes(part: Any, *omitted: str) -> dict[str, Any]:
    found = {name: value for name, value in asdict(part).items() if name not in omitted and value is not None}
    return {name: str(value) if isinstance(value, str) else value for name, value in found.items()}
