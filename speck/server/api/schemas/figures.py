"""The answers' predicted figures of a placement."""

from __future__ import annotations

from marshmallow import Schema, fields

from speck.server.api.schemas.fields import text


class PlacementLoadSchema(Schema):
    """The most loaded site or link."""

    site = text("the site, or the one at whose end the link is")
    resource = text("cores, memory or slots of a site; up or down of a link")
    share = fields.Float(metadata={"description": "the load as a share of the capacity"})
    target = fields.Float(metadata={"description": "the share that it should not exceed"})


class BusiestSchema(Schema):
    """The most loaded site, and the most loaded link."""

    site = fields.Nested(PlacementLoadSchema)
    link = fields.Nested(PlacementLoadSchema)


class SiteFiguresSchema(Schema):
    """The predicted load of a site as shares of its capacity (null: it has no limit)."""

    site = text("its name")
    cores = fields.Float(metadata={"description": "of its processor time"})
    memory = fields.Float(allow_none=True, metadata={"description": "of its memory"})
    slots = fields.Float(allow_none=True, metadata={"description": "of its slots"})
    up = fields.Float(metadata={"description": "of its link, away from it"})
    down = fields.Float(metadata={"description": "of its link, towards it"})


class TargetsSchema(Schema):
    """The target shares of a placement."""

    cores = fields.Float(metadata={"description": "of each site's cores"})
    link = fields.Float(metadata={"description": "of each link's bandwidth"})


class FiguresSchema(Schema):
    """The predicted figures of a placement."""

    objective = fields.Float(metadata={"description": "what a policy minimizes: 1 is about all in the cloud"})
    age = fields.Float(metadata={"description": "mean age of results, s"})
    age_p95 = fields.Float(metadata={"description": "95th percentile of the age of results, s"})
    wan = fields.Float(metadata={"description": "traffic between sites, bytes/s"})
    cores = fields.Float(metadata={"description": "reference cores in use, at their price"})
    multiplier = fields.Float(
        allow_none=True,
        metadata={"description": "the factor by which all sources may grow (null: without a limit)"},
    )
    bottleneck = text("what limits the multiplier")
    feasible = fields.Boolean(
        metadata={"description": "true if no target is exceeded and rates are sustained"}
    )
    busiest = fields.Nested(BusiestSchema)
    sites = fields.List(fields.Nested(SiteFiguresSchema))
    targets = fields.Nested(TargetsSchema)


class FigurePairSchema(Schema):
    """The figures of what runs and of a placement."""

    now = fields.Nested(FiguresSchema, allow_none=True, metadata={"description": "null: not all of it runs"})
    after = fields.Nested(FiguresSchema)
