"""The site inventory, field by field.  The schemas are a part of the OpenAPI description.

Checks against other fields and the installed binders are in :mod:`speck.schema.inventory`.
"""

from __future__ import annotations

from marshmallow import fields, validate

from speck.core.sasl import DEFAULT_SASL, MECHANISMS
from speck.core.units import (
    BIT_RATE,
    BYTES,
    MILLISECONDS,
    NUMBER,
)
from speck.schema.fields import (
    Choice,
    Names,
    Quantity,
    SecretReference,
    StrictSchema,
    Text,
    WholeNumber,
)
from speck.schema.pool import ScalableSchema
from speck.schema.scale import CORES
from speck.schema.schemas import check_name

_ENGINE = "an engine's address"
_PLACE = "the name of a site or a broker"
_LATENCY = (0, 600_000)  # ms; more is mistyped: no connection outlives it


class UplinkSchema(StrictSchema):
    """A site's link to the others."""

    bandwidth = Quantity("to the others; bit/s, or with a unit", BIT_RATE, positive=True)
    downlink = Quantity("from the others; by default as `bandwidth`", BIT_RATE, positive=True)
    latency = Quantity("one way; ms, or with a unit", MILLISECONDS, bounds=_LATENCY)


class LinkSchema(StrictSchema):
    """The link between two places, instead of their uplinks; for both directions unless each is listed."""

    bandwidth = Quantity("bit/s, or with a unit", BIT_RATE, positive=True)
    latency = Quantity("one way; ms, or with a unit", MILLISECONDS, bounds=_LATENCY)

    class Meta:
        """Fields of which one has the name of a keyword of Python."""

        include = {  # noqa: RUF012 - marshmallow's way
            "from": Text(
                "a site, or a broker of none", required=True, expected=_PLACE, example="A", attribute="source"
            ),
            "to": Text(
                "a site, or a broker of none", required=True, expected=_PLACE, example="D", attribute="target"
            ),
        }


_CA_FILE = "PEM file of the authority that signed the server's certificate"
_CERTIFICATE_FILE = "PEM file of the client certificate, for servers that request one"
_KEY_FILE = "PEM file of that certificate's key"
_SASL = f"mechanism by which jobs and SpecK log in to a Kafka broker (default {DEFAULT_SASL})"
_AT_THE_ENGINE = ", on the machine of the engine"
_REFERENCE = "reference to the password: `${NAME}` of the server's environment, or `file:PATH`"


class LoginSchema(StrictSchema):
    """The coordinator's login; secrets are references, never the secrets themselves."""

    username = Text("user name", example="speck")
    password = SecretReference(_REFERENCE)
    token = SecretReference("reference to a bearer token")
    ca_file = Text(_CA_FILE, example="/etc/speck/ca.pem")
    certificate_file = Text(_CERTIFICATE_FILE, example="/etc/speck/client.pem")
    key_file = Text(_KEY_FILE, example="/etc/speck/client.key")
    sasl = Text(_SASL, enum=list(MECHANISMS), example="plain")


class JobLoginSchema(StrictSchema):
    """The jobs' login to the broker, where it differs from the coordinator's."""

    username = Text("user name", example="jobs")
    password = SecretReference(f"{_REFERENCE}; it is sent to the engine that starts a job")
    password_file = Text(f"file with the password{_AT_THE_ENGINE}", example="/etc/speck/password")
    ca_file = Text(f"{_CA_FILE}{_AT_THE_ENGINE}", example="/etc/speck/ca.pem")
    certificate_file = Text(f"{_CERTIFICATE_FILE}{_AT_THE_ENGINE}", example="/etc/speck/job.pem")
    key_file = Text(f"{_KEY_FILE}{_AT_THE_ENGINE}", example="/etc/speck/job.key")
    sasl = Text(_SASL, enum=list(MECHANISMS), example="plain")


class BrokerSchema(StrictSchema):
    """A broker, its logins, and the bound of its sessions."""

    broker_address = Text(
        "address of the broker", required=True, expected="a broker's address", example="tcp://10.0.0.4:1883"
    )
    job_broker_address = Text(
        "address by which jobs reach the broker, where it differs from `broker_address`, as in containers",
        expected="a broker's address",
        example="tcp://mosquitto:1883",
    )
    broker_login = fields.Nested(LoginSchema)
    job_login = fields.Nested(JobLoginSchema)
    max_queued_bytes = Quantity(
        "Mosquitto's option: size beyond which a session drops messages; bytes, or with a unit; 0: none; "
        "100 MB by default, as in `pipelines/mosquitto.conf`",
        BYTES,
        int,
    )


class EngineSchema(ScalableSchema):
    """An engine of a site."""

    spe_address = Text(
        "address of the engine", expected=_ENGINE, example="sc://10.0.0.4:15002", required=True
    )
    rest_port = WholeNumber(
        "port of the REST server of a Spark standalone master; 6066 by default", at_most=65_535, example=6066
    )
    ui_port = WholeNumber(
        "port of a Spark standalone master's web interface; 8080 by default", at_most=65_535, example=8080
    )
    slots = WholeNumber("number of tasks that the engine can run", at_most=1_000_000, example=8)
    memory = Quantity("bytes, or with a unit", BYTES, int)
    checkpoint_dir = Text("directory of Spark checkpoints, as the engine sees it", example="/var/lib/speck")
    savepoint_dir = Text("directory of Flink savepoints, as the engine sees it", example="/var/lib/speck")
    engine_login = fields.Nested(LoginSchema)
    cores = Quantity("number of cores that jobs may use", NUMBER, positive=True, bounds=CORES)
    speed = Quantity("speed of a core, the reference core being 1", NUMBER, positive=True, bounds=(0, 1000))
    price = Quantity("price of a core, relative to others; 1 by default", NUMBER, bounds=(0, 1_000_000))


class SiteSchema(EngineSchema, BrokerSchema):
    """A place with one engine, whose fields are among the site's own, or several; and one broker."""

    name = fields.String(dump_only=True, metadata={"description": "the site's name"})
    spe_address = Text("address of the engine", expected=_ENGINE, example="sc://10.0.0.4:15002")
    engines = fields.List(
        fields.Nested(
            EngineSchema, error_messages={"null": "is empty (expected a mapping with 'spe_address:')"}
        ),
        validate=validate.Length(min=1, error="is empty (expected one engine or more)"),
        error_messages={"invalid": "is not a list (expected a list of engines, each with 'spe_address:')"},
        metadata={"description": "the engines of a site that has several"},
    )
    uplink = fields.Nested(UplinkSchema)
    labels = Names(
        "labels by which `for_each` of a job may choose sites",
        Text("a label", expected="a name", check=check_name),
        example=["edge", "north"],
    )
    tier = Choice("its tier; by default the most powerful site is the cloud", ["edge", "region", "cloud"])
    agent = fields.Boolean(
        truthy={True},
        falsy={False},
        error_messages={"invalid": "is not true or false (expected true, or leave it out)"},
        metadata={
            "description": "true: its engines and its broker are reached through the agent that runs there",
            "example": True,
        },
    )


class InventorySchema(StrictSchema):
    """The sites, and the brokers that belong to no site, by name."""

    sites = fields.Dict(
        keys=Text("the site's name", check=check_name),
        values=fields.Nested(SiteSchema),
        required=True,
        metadata={"description": "the sites, by name"},
    )
    brokers = fields.Dict(
        keys=Text("the broker's name", check=check_name),
        values=fields.Nested(BrokerSchema),
        metadata={"description": "brokers that belong to no site, by name"},
    )
    links = fields.List(fields.Nested(LinkSchema), metadata={"description": "links between two places"})
