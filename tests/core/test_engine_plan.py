"""Plans of engines as graphs: order, depth, and what is left out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from speck.core import engine_plan
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy, shortened
from tests.support.properties import tries


def node(name: str, kind: OperatorClass = OperatorClass.MAP) -> PlanNode:
    """An operator."""
    return PlanNode(id=name, kind=kind, name=name)


def edge(source: str, target: str) -> PlanEdge:
    """A forward edge."""
    return PlanEdge(source=source, target=target, strategy=ShipStrategy.FORWARD)


def plan(text: str) -> EnginePlan:
    """The plan of edges such as ``a>b``, in words; a word without ``>`` is an operator alone."""
    pairs = [each.split(">") for each in text.split()]
    names = [name for pair in pairs for name in pair]
    return EnginePlan.of(map(node, names), [edge(*pair) for pair in pairs if len(pair) == 2])


def names(found: EnginePlan) -> str:
    """The operators in order."""
    return " ".join(each.id for each in found.nodes)


def test_operators_come_after_those_that_feed_them() -> None:
    assert names(plan("c>d b>c a>b x>d")) == "a x b c d"
    assert names(plan("c>d b>c a>b")) == "a b c d"


def test_the_longest_path_counts() -> None:
    assert plan("a>b b>c a>c").depth() == 3
    assert plan("a b").depth() == 1
    assert EnginePlan().depth() == 0


def test_a_cycle_is_named_and_nothing_is_lost() -> None:
    found = plan("a>b b>c c>b c>d")
    assert names(found) == "a b c d"
    assert found.notes == ("3 operators are in a cycle, or behind one.",)
    assert found.depth() is None
    assert plan("a>a").depth() is None


def test_unknown_ends_and_repeated_operators_are_left_out() -> None:
    found = EnginePlan.of([node("a"), node("a", OperatorClass.SINK)], [edge("a", "b"), edge("c", "a")])
    assert found.nodes == (node("a"),)
    assert found.edges == ()
    assert found.notes == ("2 edges name an operator that is not in the plan.",)


def test_a_plan_that_is_too_large_is_cut_off_with_a_note() -> None:
    many = [node(str(number)) for number in range(engine_plan.MAX_OPERATORS + 2)]
    found = EnginePlan.of(many, [edge("0", str(engine_plan.MAX_OPERATORS + 1))])
    assert len(found.nodes) == 20_000
    assert found.notes == ("The plan has 20002 operators, of which the first 20000 were read.",)


def test_a_chain_of_ten_thousand() -> None:
    chain = [str(number) for number in range(10_000)]
    found = EnginePlan.of(map(node, chain[::-1]), map(edge, chain, chain[1:]))
    assert [each.id for each in found.nodes] == chain
    assert found.depth() == 10_000


def test_data_of_a_later_version() -> None:
    data = plan("a>b").to_dict()
    data["nodes"][0] |= {"kind": "teleport", "more": 1}
    data["edges"][0] |= {"strategy": "beam", "more": 1}
    found = EnginePlan.from_dict(data | {"features": {}})
    assert found.nodes[0].kind is OperatorClass.OTHER
    assert found.edges[0].strategy is ShipStrategy.CUSTOM


def test_texts_of_engines_are_one_line() -> None:
    assert shortened(" a\n\tb\x07c\u202e ") == "a b c"
    assert len(shortened("x" * 10_000)) == engine_plan.MAX_TEXT


PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20)


@given(PAIRS)
@tries(200)
def test_any_graph(pairs: list[tuple[int, int]]) -> None:
    nodes = [node(str(number)) for number in range(9)]
    found = EnginePlan.of(nodes, [edge(str(one), str(other)) for one, other in pairs])
    assert {each.id for each in found.nodes} == {str(number) for number in range(9)}
    assert len(found.edges) == len(pairs)
    assert EnginePlan.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    place = {each.id: number for number, each in enumerate(found.nodes)}
    forward = all(place[each.source] < place[each.target] for each in found.edges)
    assert forward == (found.depth() is not None) == (found.notes == ())


@given(st.permutations(range(6)), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9))
@tries(100)
def test_names_change_nothing(order: list[int], pairs: list[tuple[int, int]]) -> None:
    rising = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    one = EnginePlan.of(
        [node(str(each)) for each in range(6)], [edge(str(before), str(after)) for before, after in rising]
    )
    other = EnginePlan.of(
        [node(f"n{order[each]}") for each in range(6)],
        [edge(f"n{order[before]}", f"n{order[after]}") for before, after in rising],
    )
    assert (one.depth(), one.count()) == (other.depth(), other.count())
