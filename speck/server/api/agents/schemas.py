"""The answers about the agents of sites."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from speck.coordinator.agents.rollout import RollOutState, SiteState
from speck.core.change import SETTLE
from speck.server.api.schemas.fields import text


class InvitationSchema(Schema):
    """A code with which a site joins, once."""

    site = text("the site's name")
    code = text("for `speck sites join`; the server keeps a hash of it alone")
    until = fields.Float(metadata={"description": "its end (Unix time, s)"})


class RevocationSchema(Schema):
    """The outcome of a revocation."""

    site = text("the site's name")
    brokers = fields.List(
        fields.String(), metadata={"description": "brokers whose logins the site has from its jobs"}
    )


class RemovalSchema(Schema):
    """A site that was removed from the inventory."""

    site = text("the site's name")


class UpgradeQuery(Schema):
    """Query parameters of an upgrade of agents."""

    site = fields.List(
        fields.String(),
        load_default=list,
        metadata={
            "description": "whose agents to upgrade; none: those of all sites whose agent is connected"
        },
    )
    wave = fields.List(
        fields.String(),
        load_default=list,
        metadata={
            "description": "sites to upgrade first: SITE,SITE, a number of sites (`site/2` is the site named "
            "`2`), or a share such as 10%; each further one is the next wave, and all other sites are "
            "the last; none: one site first"
        },
    )
    settle = fields.Float(
        load_default=SETTLE,
        validate=validate.Range(0, 3600),
        metadata={"description": "time for which the jobs of a wave must run before the next one begins, s"},
    )
    dry_run = fields.Boolean(load_default=False, metadata={"description": "plan only"})
    author = fields.String(load_default="", metadata={"description": "who asks for it, for the audit log"})


class UpgradedSiteSchema(Schema):
    """One site of an upgrade of agents."""

    site = text("the site's name")
    wave = fields.Integer(metadata={"description": "the number of its wave, from 1"})
    version = text("of its agent before")
    state = fields.String(
        validate=validate.OneOf([each.value for each in SiteState]),
        metadata={"description": "untouched: an earlier wave failed"},
    )
    error = text("the reason why it was not upgraded")


class UpgradeSchema(Schema):
    """An upgrade of the agents of sites, in waves."""

    version = text("the new version, which is the server's")
    state = fields.String(
        validate=validate.OneOf([each.value for each in RollOutState]),
        metadata={"description": "planned: the answer for `dry_run`"},
    )
    author = text("who asked for it")
    started = fields.Float(allow_none=True, metadata={"description": "Unix time, s"})
    ended = fields.Float(allow_none=True, metadata={"description": "Unix time, s"})
    wave = fields.Integer(metadata={"description": "the number of the wave in progress, from 1"})
    waits = text("what the next wave waits for")
    error = text("the reason why it stopped; the sites of later waves are untouched then")
    settle = fields.Float(metadata={"description": "the time for which the jobs of a wave must run, s"})
    waves = fields.List(fields.List(fields.String()), metadata={"description": "the sites of each wave"})
    sites = fields.List(fields.Nested(UpgradedSiteSchema), metadata={"description": "by wave"})
    current = fields.List(fields.String(), metadata={"description": "sites whose agents have the version"})
    away = fields.List(
        fields.String(), metadata={"description": "sites that are left out, since their agents are away"}
    )
