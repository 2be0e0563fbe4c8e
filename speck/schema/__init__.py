"""Compositions, jobs and the site inventory, from text to checked values; all faults are reported at once.

==================  ==================================================================================
``compositions``    compositions and jobs: the entry points
``inventory``       the site inventory
``schemas``         the fields of all documents, from which the OpenAPI description is made
``fields``          kinds of fields, with ``address``, ``units`` and ``secret_detection`` for their values
``validation``      plain data to fields that are valid by themselves
``resolver``        a job's fields to a job: sites, addresses, engine; its code in ``code``
``logins``          faults of logins, and warnings about their secrets
``lint``            warnings about a composition as a whole
``placement``       the block of that name; faults and warnings of jobs and topics that SpecK places
``fault_report``    how faults are worded and collected
``yaml``            YAML and JSON text, with lines and variables
==================  ==================================================================================
"""

from __future__ import annotations

from speck.schema.compositions import (
    Loaded,
    client_id_conflicts,
    load_composition,
    load_job,
    load_jobs,
    read_document,
)
from speck.schema.inventory import NO_VARIABLES, load_inventory
from speck.schema.schemas import (
    BrokerSchema,
    CompositionSchema,
    InventorySchema,
    JobLoginSchema,
    JobSchema,
    LoginSchema,
    SiteSchema,
    UplinkSchema,
)

__all__ = [
    "NO_VARIABLES",
    "BrokerSchema",
    "CompositionSchema",
    "InventorySchema",
    "JobLoginSchema",
    "JobSchema",
    "Loaded",
    "LoginSchema",
    "SiteSchema",
    "UplinkSchema",
    "client_id_conflicts",
    "load_composition",
    "load_inventory",
    "load_job",
    "load_jobs",
    "read_document",
]
