"""``pool`` of engines in the site inventory: the faults of the engines among which SpecK chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from marshmallow import fields

from speck.binder import scheme_of
from speck.core.inventory import Engine
from speck.core.names import JOB_NAME
from speck.schema.fields import StrictSchema, Text
from speck.schema.scale import HookSchema, ScaleSchema, hook_faults

PoolFault = tuple[tuple[str, ...], str]  # the path of a field of an engine, and a predicate about it


def _check_pool(value: str) -> str | None:
    return None if JOB_NAME.match(value) else "is not a name (expected letters, digits, '-', '_' and '.')"


class ScalableSchema(StrictSchema):
    """The part of an engine that says how its site grows: by workers, or by engines of a pool."""

    scale = fields.Nested(ScaleSchema)
    pool = Text(
        "name of the engines of the site of which SpecK chooses one for each job",
        expected="a name",
        check=_check_pool,
        example="small",
    )
    hook = fields.Nested(
        HookSchema,
        metadata={"description": "starts and stops an engine of a pool; without it the engine always runs"},
    )


def pool_faults(engine: Engine, before: Sequence[Engine], complete: bool) -> Iterator[PoolFault]:
    """The faults of an engine in a pool; ``before`` are the engines of its site that are listed earlier.

    ``complete`` is true if no field is invalid by itself.
    """
    if engine.hook is not None and engine.pool is None:
        yield ("hook",), "is given without 'pool' (expected it at an engine of a pool; workers have 'scale')"
    elif engine.hook is not None:
        for path, predicate in hook_faults(
            engine.hook, ("command", "url"), "has no command and no url", complete
        ):
            yield ("hook", *path), predicate
    if engine.pool is None:
        return
    if engine.scale is not None:
        yield ("pool",), "conflicts with 'scale' (expected one of them: engines, or workers of one engine)"
    elif engine.cores is None:
        yield ("cores",), "is required by 'pool' (expected the cores of this engine)"
    first = next((each for each in before if each.pool == engine.pool), None)
    if first is not None and engine.spe_address and first.spe_address:
        scheme, other = scheme_of(engine.spe_address), scheme_of(first.spe_address)
        if scheme != other:
            right = f"expected {other}:// as of {first.spe_address}: a pool has engines of one kind"
            yield ("pool",), f"has engines with {scheme}:// and {other}:// ({right})"
