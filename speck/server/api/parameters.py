"""The query parameters and headers that the REST interface takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from speck.core.adaptation import LONGEST_PAUSE
from speck.core.change import SETTLE
from speck.observe.profile.estimates import LEAST_SPAN
from speck.schema.fault_report import show
from speck.schema.schemas import check_name
from speck.store.jobfile import LARGEST

_LAST_NUMBER = 9_999_999_999  # what the store has digits for
_NAME = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"}


# --- checks of values


def _name(value: str) -> None:
    _valid(value, check_name(value))


def _valid(value: str, fault: str | None) -> None:
    if fault is not None:
        raise ValidationError(f"{show(value)} {fault}")


def _constraints(texts: list[str]) -> None:
    for text in texts:
        job, _, sites = text.partition("=")
        if not job or not all(sites.split(",")):
            raise ValidationError(f"{show(text)} is not a constraint (expected JOB=SITE or JOB=SITE,SITE)")


def _printable(text: str) -> None:
    if not all(each.isprintable() or each in "\n\t" for each in text):
        raise ValidationError("contains control characters (expected plain text)")


def _one_line(text: str) -> None:
    if not text.isprintable():
        raise ValidationError("contains control characters (expected one line of plain text)")


# --- fields that several queries have


def _wait() -> fields.Float:
    return fields.Float(
        load_default=0.0,
        validate=validate.Range(0, 3600),
        metadata={"description": "time to wait for the operation's end before responding, s"},
    )


def _author() -> fields.String:
    return fields.String(
        load_default="",
        validate=[validate.Length(max=200), _one_line],
        metadata={"description": "the author; stored in the history"},
    )


def _revision(least: int, description: str) -> fields.Integer:
    """The number of a revision, which may be left out."""
    return fields.Integer(
        load_default=None,
        allow_none=True,
        validate=validate.Range(least, _LAST_NUMBER),
        metadata={"description": description},
    )


def _leave_behind() -> fields.List[str]:
    return fields.List(
        fields.String(),
        load_default=list,
        metadata={
            "description": "sites, or addresses of engines and brokers, that are not asked: copies and "
            "sessions there are abandoned, and ended when they answer again"
        },
    )


def _give_up() -> fields.Boolean:
    return fields.Boolean(
        load_default=False,
        metadata={
            "description": "discard messages still unread in sessions that jobs leave; "
            "without it, such a change is rejected"
        },
    )


# --- the queries


class ArtifactQuery(Schema):
    """The query of ``PUT /artifacts/SHA256``."""

    offset = fields.Integer(
        load_default=0,
        validate=validate.Range(0, LARGEST),
        metadata={"description": "the bytes of it that are here already, after which this part begins"},
    )
    size = fields.Integer(
        load_default=None,
        allow_none=True,
        validate=validate.Range(0, LARGEST),
        metadata={"description": "the bytes of the whole content (by default it ends with this part)"},
    )


class ChangeQuery(Schema):
    """Query parameters of a request that begins an operation."""

    wait = _wait()
    author = _author()
    message = fields.String(
        load_default="",
        validate=[validate.Length(max=1000), _printable],
        metadata={"description": "the reason; stored in the history"},
    )


class JobQuery(ChangeQuery):
    """Query parameters of the deployment of one job."""

    give_up = _give_up()
    composition = fields.String(
        load_default="jobs", validate=_name, metadata={"description": "the composition it joins", **_NAME}
    )


class PlannedQuery(ChangeQuery):
    """Query parameters of a change that can be planned without being carried out."""

    dry_run = fields.Boolean(load_default=False, metadata={"description": "answer with the plan only"})
    base_revision = _revision(0, "refuse when this is not the last revision")


class OrderedQuery(PlannedQuery):
    """Query parameters of a change that is carried out in several steps."""

    steps = fields.Boolean(
        load_default=False,
        metadata={"description": "for `dry_run`: also answer the steps of the plan, in their order"},
    )


class DeletionQuery(OrderedQuery):
    """Query parameters of the deletion of a composition."""

    leave_behind = _leave_behind()


class JobDeletionQuery(OrderedQuery):
    """Query parameters of the deletion of one job."""

    leave_behind = _leave_behind()
    give_up = _give_up()


class ForgettingQuery(Schema):
    """Query parameters of a request to forget abandoned copies and sessions."""

    place = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "sites, or addresses of engines and brokers, that never come back"},
    )
    author = _author()


class ApplyQuery(DeletionQuery):
    """Query parameters of an apply."""

    give_up = _give_up()
    atomic = fields.Boolean(
        load_default=False,
        metadata={"description": "roll back to the previous revision if any job fails or has to wait"},
    )
    wave = fields.List(
        fields.String(),
        load_default=list,
        metadata={
            "description": "sites to change first: SITE,SITE, a number of sites (`site/2` is the site named "
            "`2`), or a share such as 10%; each further one is the next wave, and all other sites are "
            "the last; implies `atomic`"
        },
    )
    settle = fields.Float(
        load_default=SETTLE,
        validate=validate.Range(0, 3600),
        metadata={"description": "time for which the jobs of a wave must run before the next one begins, s"},
    )
    place = fields.String(
        load_default="new",
        validate=validate.OneOf(("new", "all", "none")),
        metadata={
            "description": "the jobs without a fixed site to place: those that do not run, all, or none"
        },
    )
    plan = fields.String(
        load_default="",
        metadata={
            "description": "carry out the plan of this id (`plan` of the answer for `dry_run`) as it was "
            "shown; the body is not read then",
        },
    )
    build = fields.Boolean(
        load_default=False,
        metadata={"description": "for `dry_run`: have the engines build the new code, which starts nothing"},
    )
    all_code = fields.Boolean(
        load_default=False,
        metadata={
            "description": "let every change of a file count for all of its jobs, also a change that a job "
            "does not reach"
        },
    )
    name = fields.String(
        load_default="composition",
        validate=_name,
        metadata={"description": "the name of a composition that has none", **_NAME},
    )


class AdoptionQuery(PlannedQuery):
    """Query parameters of an adoption."""

    job = fields.List(
        fields.String(), load_default=list, metadata={"description": "the jobs to adopt (none: all)"}
    )
    name = fields.String(
        load_default="composition",
        validate=_name,
        metadata={
            "description": "the name of a composition that has none; without a body, that of one to adopt",
            **_NAME,
        },
    )


class WindowsQuery(Schema):
    """Query parameters of a request for the windows of a split."""

    after = fields.Float(
        load_default=0.0,
        validate=validate.Range(min=0),
        metadata={"description": "only windows that ended later than this Unix time", "example": 0},
    )


class PlacementQuery(Schema):
    """Query parameters of a request for a placement."""

    composition = fields.String(
        load_default="composition",
        validate=_name,
        metadata={
            "description": "of which what runs is placed, or the name of a body that has none",
            **_NAME,
        },
    )
    policy = fields.String(
        load_default="", metadata={"description": "its name; by default the composition's own"}
    )
    compare = fields.Boolean(load_default=False, metadata={"description": "add the figures of all policies"})
    site_constraints = fields.List(
        fields.String(),
        load_default=list,
        validate=_constraints,
        metadata={"description": "JOB=SITE,SITE: the only sites that may run this job"},
    )
    pin = fields.List(
        fields.String(), load_default=list, metadata={"description": "jobs that stay where they run"}
    )
    explain = fields.List(
        fields.String(),
        load_default=list,
        metadata={"description": "jobs to explain even if there are too many to explain all"},
    )


class AcceptanceQuery(ChangeQuery):
    """Query parameters of the acceptance of a placement."""

    give_up = _give_up()


class PinQuery(OrderedQuery):
    """Query parameters of a request to pin a job, or to let it be moved again."""

    pin = fields.Boolean(load_default=True, metadata={"description": "false: let it be moved again"})
    site = fields.String(load_default="", metadata={"description": "the site that it is moved to first"})


class AdaptationQuery(Schema):
    """Query parameters of a request to pause or to resume the adaptation of a composition."""

    pause = fields.Float(
        load_default=None,
        allow_nan=False,
        validate=validate.Range(1, LONGEST_PAUSE),
        metadata={"description": "pause for this many seconds, up to 30 days"},
    )
    resume = fields.Boolean(load_default=False, metadata={"description": "true: end the pause"})

    @validates_schema(skip_on_field_errors=True)
    def one_of_both(self, data: Mapping[str, Any], **_: Any) -> None:
        """Refuse none, and both."""
        if (data["pause"] is None) is not data["resume"]:
            raise ValidationError(
                "is missing, or given together with resume=true (expected pause=SECONDS or resume=true)",
                "pause",
            )


class RollbackQuery(OrderedQuery):
    """Query parameters of a rollback."""

    revision = _revision(1, "the one to go back to; by default the one before the last")
    give_up = _give_up()


class DifferenceQuery(Schema):
    """Query parameters of a comparison of two revisions."""

    before = _revision(0, "by default the one before `after`; 0: before the first")
    after = _revision(1, "by default the last one")


class LiveHeaders(Schema):
    """Headers of a request to follow the live view."""

    last_event_id = fields.String(
        data_key="Last-Event-ID",
        load_default="",
        metadata={
            "description": "the id of the last event received: the stream begins with the changes since"
        },
    )


class LogQuery(Schema):
    """Query parameters of a job's log."""

    lines = fields.Integer(
        load_default=100,
        validate=validate.Range(1, 10_000),
        metadata={"description": "how many at most, the last ones"},
    )


class ProfileQuery(Schema):
    """Query parameters of the profiles."""

    composition = fields.String(load_default="", metadata={"description": "of this composition only"})


class MeasurementQuery(ProfileQuery):
    """Query parameters of a measurement."""

    seconds = fields.Float(
        load_default=60.0,
        validate=validate.Range(LEAST_SPAN, 86_400),
        metadata={"description": "how long the jobs are sampled"},
        allow_nan=False,
    )
    links = fields.Boolean(
        load_default=False,
        metadata={"description": "probe the links too: a program at an engine sends up to 4 MiB over each"},
    )
    sites = fields.Boolean(
        load_default=False,
        metadata={"description": "probe a core of each site too, by a program at one of its engines"},
    )


class OperationsQuery(Schema):
    """Query parameters of the list of operations."""

    limit = fields.Integer(
        load_default=50,
        validate=validate.Range(1, 200),
        metadata={"description": "how many, the last ones"},
    )
    composition = fields.String(load_default="", metadata={"description": "on this composition only"})
    before = fields.String(
        load_default="",
        metadata={"description": "the id of an operation: only operations that began before it"},
    )


class EventsQuery(Schema):
    """Query parameters of the audit log."""

    limit = fields.Integer(
        load_default=100,
        validate=validate.Range(1, 10_000),
        metadata={"description": "how many, the last ones"},
    )
    composition = fields.String(load_default=None, metadata={"description": "of this composition only"})
    job = fields.String(load_default=None, metadata={"description": "of this job only"})
    operation = fields.String(load_default=None, metadata={"description": "of this operation only"})
    since = fields.Float(
        load_default=None, metadata={"description": "no older than this (Unix time, s)"}, allow_nan=False
    )
