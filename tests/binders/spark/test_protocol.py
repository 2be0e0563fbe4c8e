"""The client of Spark Connect loads the messages of its protocol, and not the rest of PySpark."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow("each test needs a new interpreter")

HEAVY = ("pandas", "pyarrow", "numpy", "py4j", "pyspark.sql", "grpc", "grpc_status")


def run(program: str) -> str:
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_an_import_of_the_client_loads_no_pandas_arrow_numpy_or_grpc() -> None:
    listed = "import sys, binders.spark.connect.engine; print(*(each for each in sys.modules))"
    loaded = run(listed).split()
    assert "binders.spark.connect.protocol" in loaded
    assert [each for each in HEAVY if each in loaded] == []


def test_an_agent_with_spark_loads_no_http_client_no_grpc_and_nothing_for_profiles() -> None:
    agent = "import sys, speck.agent.agent, speck.binder, binders.spark.connect.engine"
    loaded = run(f"{agent}; speck.binder.installed(); print(*sys.modules)").split()
    assert {"binders.flink", "binders.spark.connect.engine"} <= set(loaded)
    assert [each for each in ("urllib3", "requests", "yaml", "psutil", "grpc") if each in loaded] == []


def test_an_agent_with_flink_loads_no_module_that_it_does_not_use() -> None:
    agent = "import sys, speck.agent.agent, speck.binder, binders.flink.engine, binders.mqtt.broker"
    loaded = run(f"{agent}; speck.binder.installed(); print(*sys.modules)").split()
    unused = ("fractions", "html", "subprocess", "zoneinfo")
    assert [each for each in unused if each in loaded] == []


@pytest.mark.parametrize("first", ["pb2", "pyspark"])
def test_pyspark_can_be_imported_before_and_after(first: str) -> None:
    own, whole = "from binders.spark.connect.protocol import pb2", "import pyspark.sql.connect.proto as proto"
    lines = [own, whole] if first == "pb2" else [whole, own]
    check = [
        "from pyspark.sql.connect.session import SparkSession",
        "from pyspark.sql.connect.types import pyspark_types_to_proto_types",
        "from pyspark.sql.types import StringType",
        "from binders.spark.connect.probe import _python_function",
        "assert pb2.Plan is proto.Plan",
        "function = _python_function(str).project.expressions[0].common_inline_user_defined_function",
        "assert function.python_udf.output_type == pyspark_types_to_proto_types(StringType())",
        "print('same')",
    ]
    assert run("\n".join([*lines, *check])) == "same"
