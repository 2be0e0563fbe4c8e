"""The functions of SQL: their signatures, and the operators that they become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.sql.program import Expression
from speck.sql.types import Type

_L, _D, _S, _B, _T = Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression with its type; ``type`` is ``None`` for a bare NULL, which is of any type."""

    expression: Expression
    type: Type | None
    nullable: bool = True

    @property
    def shown_type(self) -> str:
        """The type for messages."""
        return str(self.type or "NULL")


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of arguments and result of an operator; ``total``: NULL only for a NULL."""

    arguments: tuple[Type, ...]
    result: Type
    operator: str
    total: bool = True


def _numbers(name: str, count: int, *, total: bool = True) -> tuple[Signature, ...]:
    """An operator of whole numbers, and one of doubles, whose result may be no finite number."""
    whole = Signature((_L,) * count, _L, f"{name}_l", total)
    return whole, Signature((_D,) * count, _D, f"{name}_d", name in ("abs", "neg"))


def _doubles(name: str, count: int = 1) -> tuple[Signature, ...]:
    return (Signature((_D,) * count, _D, name, total=False),)


FUNCTIONS: Mapping[str, tuple[Signature, ...]] = {
    "+": _numbers("add", 2),
    "-": _numbers("sub", 2),
    "*": _numbers("mul", 2),
    "/": _numbers("div", 2, total=False),
    "%": _numbers("mod", 2, total=False),
    "mod": _numbers("mod", 2, total=False),
    "negative": _numbers("neg", 1),
    "abs": _numbers("abs", 1),
    "floor": (Signature((_D,), _D, "floor"),),
    "ceil": (Signature((_D,), _D, "ceil"),),
    "round": (Signature((_D,), _D, "round", total=False), Signature((_D, _L), _D, "round", total=False)),
    "power": _doubles("power", 2),
    "sqrt": _doubles("sqrt"),
    "ln": _doubles("ln"),
    "exp": _doubles("exp"),
    "sin": _doubles("sin"),
    "cos": _doubles("cos"),
    "||": (Signature((_S, _S), _S, "concat"),),
    "upper": (Signature((_S,), _S, "upper"),),
    "lower": (Signature((_S,), _S, "lower"),),
    "trim": (Signature((_S,), _S, "trim"),),
    "substring": (
        Signature((_S, _L), _S, "substring"),
        Signature((_S, _L, _L), _S, "substring", total=False),
    ),
    "split_part": (Signature((_S, _S, _L), _S, "split_part"),),
    "replace": (Signature((_S, _S, _S), _S, "replace"),),
    "position": (Signature((_S, _S), _L, "position"),),
    "length": (Signature((_S,), _L, "length"),),
    "epoch_ms": (Signature((_T,), _L, "long_t"),),
    "from_epoch_ms": (Signature((_L,), _T, "time_l", total=False),),
}

# Functions of arguments of one type, with a result of that type.
SAME_TYPE = ("coalesce", "nullif", "greatest", "least")
AGGREGATES = ("count", "sum", "min", "max", "avg")
WINDOW_FUNCTIONS = ("tumble", "hop", "session")

# Casts that give a value for each value.
CASTS: Mapping[tuple[Type, Type], str] = {
    (_L, _D): "double",
    (_B, _S): "text_b",
    (_L, _S): "text_l",
    (_D, _S): "text_d",
    (_T, _S): "text_t",
    (_B, _L): "long_b",
}
# Casts that give NULL for some values: TRY_CAST only.
TRY_CASTS: Mapping[tuple[Type, Type], str] = {
    (_S, _L): "long_s",
    (_S, _D): "double_s",
    (_S, _B): "boolean_s",
    (_S, _T): "time_s",
    (_D, _L): "long_d",
}

# Names that users may try, and the way to the same.
INSTEAD: Mapping[str, str] = {
    "now": "queries have no clock: use the event time of the rows",
    "current_timestamp": "queries have no clock: use the event time of the rows",
    "current_date": "queries have no clock: use the event time of the rows",
    "random": "a query gives the same rows when messages are read again",
    "rand": "a query gives the same rows when messages are read again",
    "concat": "use ||, and COALESCE for NULLs",
    "regexp_like": "use LIKE, or SPLIT_PART",
    "left": "use SUBSTRING(text, 1, n)",
    "right": "use SUBSTRING",
    "to_timestamp": "use FROM_EPOCH_MS, or TRY_CAST(text AS timestamp)",
    "to_char": "use CAST(x AS string), EXTRACT or DATE_TRUNC",
    "array_agg": "use MIN or MAX, or a Python or Java job",
}
OWN_FUNCTION = "a Python or Java job before or after this one can do it, connected by a typed topic"


def widened(bound: Bound, type: Type) -> Bound | None:
    """An argument as a wider type; ``None`` without such a conversion."""
    if bound.type is None:
        return Bound(("lit", str(type), None), type)
    if bound.type is type or (bound.type.whole and type is _L):
        return Bound(bound.expression, type, bound.nullable)
    if bound.type.whole and type is _D:
        return Bound(("double", bound.expression), type, bound.nullable)
    return None


def applied(name: str, arguments: Sequence[Bound]) -> Bound | None:
    """The call of a function; ``None`` if no signature of it fits the arguments."""
    for signature in FUNCTIONS[name]:
        if len(signature.arguments) != len(arguments):
            continue
        pairs = zip(arguments, signature.arguments, strict=True)
        given = [wide for each, type in pairs if (wide := widened(each, type)) is not None]
        if len(given) == len(arguments):
            nullable = not signature.total or any(each.nullable for each in given)
            expression = (signature.operator, *(each.expression for each in given))
            return Bound(expression, signature.result, nullable)
    return None


def signatures_of(name: str) -> Iterator[str]:
    """The forms of a function, for messages."""
    for signature in FUNCTIONS[name]:
        yield f"({', '.join(signature.arguments)})"


def common_type(arguments: Sequence[Bound]) -> Type | None:
    """The narrowest type to which all arguments widen; ``None`` if there is none, or all are NULL."""
    types = [each.type for each in arguments if each.type is not None]
    if not types:
        return None
    if len(set(types)) == 1:
        return types[0]
    if all(each.numeric for each in types):
        return _D if _D in types else _L
    return None


def unified(arguments: Sequence[Bound]) -> list[Bound] | None:
    """The arguments as of one type; ``None`` if they have none."""
    type = common_type(arguments)
    if type is None:
        return None if any(each.type is not None for each in arguments) else list(arguments)
    found = [wide for each in arguments if (wide := widened(each, type)) is not None]
    return found if len(found) == len(arguments) else None
