"""The answers about the agents of sites."""

from __future__ import annotations

from marshmallow import Schema, fields

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
