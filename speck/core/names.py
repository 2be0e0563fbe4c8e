"""The form of the names of jobs, compositions and sites; light, since every command imports it."""

from __future__ import annotations

import re

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
