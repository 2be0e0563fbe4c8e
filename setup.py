"""The build of the wheel, which is refused without its jars; all else stands in setup.cfg."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

JARS = (
    "binders/jars/spark-mqtt.jar",
    "binders/jars/flink-mqtt.jar",
    "binders/jars/flink-small.jar",
    "binders/jars/speck-kafka.jar",
    "jars_and_apps/flink/speck-flink-jobs.jar",
    "jars_and_apps/flink/speck-flink-jobs-all.jar",
    "jars_and_apps/nexmark/speck-nexmark.jar",
    "jars_and_apps/sql/speck-sql.jar",
)


class BuildWithJars(build_py):
    """Copy the modules and their data.

    Exits with a sentence that names the missing jars, unless the installation is editable: the jars may be
    built later there.
    """

    def run(self) -> None:
        """Check for the jars first."""
        root = Path(__file__).parent
        missing = [jar for jar in JARS if not (root / jar).is_file()]
        if missing and not self.editable_mode:
            message = (
                f"speck is not built: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            )
            raise SystemExit(f"{message} (expected the jars, which 'make jars' builds)")
        super().run()


setup(cmdclass={"build_py": BuildWithJars})
