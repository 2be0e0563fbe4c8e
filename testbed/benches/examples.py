"""Jobs, files and kinds of engine that the tests of the pure parts read and compare."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from speck.binder import BrokerBinder, BrokerKind, EngineBinder, EngineKind, Registry
from speck.core.inventory import Engine, Inventory, Login, Site
from speck.core.job import Job
from testbed import ROOT

PIPELINES = ROOT / "pipelines"


def job(job_name: str, source_topic: str = "in", sink_topic: str = "out", **fields: Any) -> Job:
    """A Flink job at one broker, any field of it replaced."""
    return Job(
        **{
            "job_name": job_name,
            "spe_address": "http://edge:8081/",
            "source_broker": "tcp://edge:1883",
            "source_topic": source_topic,
            "sink_broker": "tcp://edge:1883",
            "sink_topic": sink_topic,
            "entry_class": "package.ExampleJob",
            "job_path": "test-1.jar",
            "engine": "flink",
            "code_hash": "c0de",
            **fields,
        }
    )


def make_jar(path: Path, *classes: str) -> Path:
    """A jar with entries for these classes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for name in classes:
            jar.writestr(name.replace(".", "/") + ".class", b"\xca\xfe\xba\xbe")
    return path


def check_jar(path: Path, entry_class: str) -> str | None:
    """The fault of a jar without the class, or None."""
    try:
        with zipfile.ZipFile(path) as jar:
            found = entry_class.replace(".", "/") + ".class" in jar.namelist()
    except zipfile.BadZipFile:
        return f"job_path {path.name!r} is not a jar"
    return None if found else f"entry_class {entry_class!r} is not in {path.name} (expected a class of it)"


def check_python(path: Path, entry_class: str) -> str | None:
    """The fault of a file without the function, or None."""
    if f"def {entry_class}(" in path.read_text():
        return None
    return f"entry_class {entry_class!r} is not in {path.name} (expected a function of it)"


def _no_engine(address: str, inventory: Inventory) -> EngineBinder:
    raise AssertionError(f"reading a file must not connect to {address}")


def _no_broker(address: str, inventory: Inventory) -> BrokerBinder:
    raise AssertionError(f"reading a file must not connect to {address}")


ON_ERROR = ("fail", "skip", "park")
FLINK = EngineKind(
    "flink", "flink", ("http", "https"), check_jar, _no_engine, on_error=ON_ERROR, retains=True
)
SPARK = EngineKind(
    "spark",
    "spark",
    ("sc",),
    check_python,
    _no_engine,
    on_error=ON_ERROR,
    retains=True,
    output_modes=True,
    real_time=True,
)
MQTT = BrokerKind("mqtt", ("tcp", "mqtt", "mqtts", "ssl"), _no_broker)
REGISTRY = Registry.of([SPARK, FLINK, MQTT])


def one_site(
    name: str, spe_address: str, broker_address: str, login: Login | None = None, **engine: Any
) -> Site:
    """A site with one engine, of these further fields; ``login`` is the broker's."""
    engines = (Engine(spe_address=spe_address, **engine),)
    return Site(name=name, engines=engines, broker_address=broker_address, broker_login=login or Login())
