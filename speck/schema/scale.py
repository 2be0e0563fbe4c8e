"""``scale`` and ``hook`` of an engine in the site inventory: the bounds of its workers, and their hook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from marshmallow import ValidationError, fields

from speck.binder import scheme_of
from speck.core.inventory import Engine, Hook, Predictor, Scale
from speck.core.units import BYTES, NUMBER, PER_SECOND, SECONDS
from speck.schema.address import redacted
from speck.schema.fault_report import kind_of_value
from speck.schema.fields import Quantity, SecretReference, StrictSchema, Switch, Text, WholeNumber

MOST_WORKERS = 10_000  # a mistyped bound is refused, before a hook rents machines
CORES = (0, 1_000_000)  # of an engine, or of a worker; more are mistyped
PLACEHOLDERS = ("site", "engine", "count", "stop")

_HOOKS = ("command", "url", "local")
# Names of parameters that are secrets; the URL of a hook is shown in events.
_SECRET = re.compile(
    r"(?i)(\A|[^a-z])(access|api|auth|client|private|shared)?[_-]?"
    r"(token|passw(or)?d|passphrase|pwd|secret|key|auth|credentials?|sig|signature)\Z"
)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]*)\}")
_URL = "https://HOST:PORT/PATH or http://HOST:PORT/PATH"

ScaleFault = tuple[tuple[str, ...], str]  # the path of a field in `scale`, and a predicate about it


def _check_url(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right:
        return f"{redacted(value)!r} is not the URL of a hook (expected {_URL})"
    if parts.username is not None or parts.password is not None:
        return f"{redacted(value)!r} contains a login (expected it in 'token')"
    secret = next((name for name, _ in parse_qsl(parts.query, True) if _SECRET.search(name)), None)
    if secret is not None:
        return f"{value.partition('?')[0]!r} has the query {secret!r}, a secret (expected it in 'token')"
    return None


class Command(fields.List[Any]):
    """A program and its arguments, with placeholders; no shell reads them."""

    def __init__(self, description: str, example: list[str], count: str) -> None:
        """``count`` is what the placeholder ``{count}`` stands for."""
        self._count = count
        super().__init__(
            Text("an argument", check=lambda _: None),
            metadata={"description": description, "example": example},
        )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list):
            raise ValidationError(f"is {kind_of_value(value)} (expected a list: a program and its arguments)")
        found = [str(each) for each in super()._deserialize(value, attr, data, **kwargs)]
        if not found or not found[0].strip():
            raise ValidationError("has no program (expected a list: a program and its arguments)")
        used = {name for each in found for name in _PLACEHOLDER.findall(each)}
        if unknown := sorted(used - set(PLACEHOLDERS)):
            known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise ValidationError(f"has the unknown placeholder {{{unknown[0]}}} (expected some of {known})")
        if "count" not in used:
            raise ValidationError(f"has no {{count}} (expected it as an argument: {self._count})")
        return tuple(found)


class NumberOfWorkers(WholeNumber):
    """A whole number from 0."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        super().__init__(description, at_most=MOST_WORKERS, example=1, **kwargs)
        self.metadata = {**self.metadata, "minimum": 0}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if value == 0 and not isinstance(value, bool | float):
            return 0
        try:
            return super()._deserialize(value, attr, data, **kwargs)
        except ValidationError as error:
            raise ValidationError(f"is not a whole number from 0 to {MOST_WORKERS:,}") from error


class PredictorSchema(StrictSchema):
    """The rules by which messages that wait for a job ask for more workers."""

    steep = Quantity("growth of the waiting messages that asks for two instances more; 10/s", PER_SECOND)
    rise = Quantity("growth of the waiting messages that asks for one instance more; 5/s", PER_SECOND)
    waiting = NumberOfWorkers("waiting messages that ask for more instances while they do not fall fast; 100")
    fall = Quantity("decrease of the waiting messages that counts as fast; 10/s", PER_SECOND)
    pause = Quantity("time between two predictions; 5 s", SECONDS, bounds=(1, 3600))


class HookSchema(StrictSchema):
    """The hook that starts and stops an engine of a pool."""

    command = Command(
        "program that starts the engine with the address `{engine}` (`{count}` is 1), or stops it (0)",
        ["/opt/speck/bin/engine", "{engine}", "{count}"],
        "1 to start the engine, 0 to stop it",
    )
    url = Text(
        "the same by PUT, with `workers`, 1 or 0, as JSON", check=_check_url, example="https://10.0.0.4/e"
    )
    token = SecretReference("reference to the bearer token for `url`")
    idle = Quantity("time after which an engine without jobs may go; 60 s", SECONDS, bounds=(1, 86_400))


class ScaleSchema(HookSchema):
    """The workers of an engine, whose number follows its jobs, and the hook that starts and stops them."""

    cores = Quantity(
        "cores of a worker",
        NUMBER,
        positive=True,
        bounds=CORES,
        required=True,
        error_messages={"required": "is missing (expected the cores of a worker)"},
    )
    slots = WholeNumber("tasks that a worker runs; by default as it reports", at_most=1_000_000, example=8)
    memory = Quantity("of a worker; bytes, or with a unit", BYTES, int)
    command = Command(
        "program that sets the number of workers to `{count}`; `{stop}` are the ids of those to be stopped",
        ["/opt/speck/bin/worker", "{site}", "{count}", "{stop}"],
        "the number of workers",
    )
    url = Text(
        "the same by PUT, with `workers` and `stop` as JSON", check=_check_url, example="https://10.0.0.4/w"
    )
    local = Switch("true: workers of a site of this machine, of `speck local up`")
    idle = Quantity("time after which a worker without jobs may go; 60 s", SECONDS, bounds=(1, 86_400))
    predictor = fields.Nested(PredictorSchema)

    class Meta:
        """Fields with the names of functions of Python."""

        include = {  # noqa: RUF012 - marshmallow's way
            "min": NumberOfWorkers("least number of workers; 1 by default", attribute="least"),
            "max": NumberOfWorkers(
                "greatest number of workers",
                required=True,
                attribute="most",
                error_messages={"required": "is missing (expected the greatest number of workers)"},
            ),
        }


def scale_of(given: Mapping[str, Any]) -> Scale:
    """The workers of an engine from valid fields; ``local`` is the current directory."""
    values = {"least": min(1, given.get("most", 1)), **given}
    local = "." if values.pop("local", False) else None
    predictor = Predictor(**values.pop("predictor", {}))
    return Scale(**{"most": 0, "cores": 1.0} | values, local=local, predictor=predictor)


def hook_faults(hook: Hook, kinds: Sequence[str], missing: str, complete: bool) -> Iterator[ScaleFault]:
    """The faults of a hook, which is called in one of these ways; ``missing`` says that it has none of them.

    ``complete`` as of :func:`scale_faults`.
    """
    found = [name for name in kinds if getattr(hook, name)]
    expected = f"expected one of {', '.join(kinds[:-1])} and {kinds[-1]}"
    if not found and complete:
        yield (), f"{missing} ({expected})"
    if len(found) > 1:
        yield (found[1],), f"conflicts with {found[0]} ({expected})"
    if hook.token is not None and hook.url is None:
        yield ("token",), "has no effect without url (expected both)"


def scale_faults(
    engine: Engine, scale: Scale, given: Mapping[str, Any], complete: bool
) -> Iterator[ScaleFault]:
    """The faults of the workers of an engine.

    ``given`` are the valid fields of ``scale``; ``complete`` is true if no field is invalid by itself.
    """
    yield from hook_faults(scale, _HOOKS, "has no hook", complete)
    if {"least", "most"} <= given.keys() and scale.least > scale.most:
        yield ("min",), f"is more than max, {scale.most} (expected min to be max or less)"
    if "most" in given and not scale.most:
        yield ("max",), "allows no worker (expected 1 or more)"
    if scale.predictor.rise > scale.predictor.steep:
        yield ("predictor", "rise"), f"is more than steep, {scale.predictor.steep:g}/s (expected less)"
    if scheme_of(engine.spe_address) == "sc":
        yield (), "is given for a server of Spark Connect, which has no workers (expected another engine)"
