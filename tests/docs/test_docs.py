"""The documentation says what is: its files load, its code compiles, its commands and options are there."""

from __future__ import annotations

import ast
import html
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from binders.flink.local.cluster import flink_home
from docs.generate import commands, fields, rest
from scripts import arm64_wheels
from speck.binder import installed
from speck.errors import LocalError
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from speck.schema.inventory_schemas import InventorySchema
from speck.schema.schemas import CompositionSchema
from testbed import ROOT
from testbed.benches.examples import make_jar
from tests.docs.test_docs_commands import IN_THE_SAME_WORLD, README, TUTORIAL
from tests.support.docs_blocks import PAGES, Block, blocks, inline_commands, steps, typed, words
from tests.support.docs_commands import fault
from tests.support.trials import skip_trial

BLOCKS = [block for page in PAGES for block in blocks(page)]
SITES = (ROOT / "pipelines" / "sites.yaml").read_text(encoding="utf-8")
ON_FLINK = SITES.replace("sc://", "http://").replace(":15002", ":8081")


def of_language(*languages: str) -> list[Any]:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


def all_pages() -> list[Any]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of_language("yaml"))
def test_yaml_is_what_speck_reads(block: Block, tmp_path: Path) -> None:
    data = yaml.safe_load(block.text)
    assert isinstance(data, dict), f"{block}: not a mapping"
    if "sites" in data:
        assert load_inventory(block.text).sites
    if "jobs" in data:
        for job in data["jobs"]:
            if "sql" not in job and not (ROOT / job["job_path"]).exists():
                make_code(tmp_path / job["job_path"], job["entry_class"])
        flink = any(job.get("engine") == "flink" for job in data["jobs"])
        loaded = load_composition(
            block.text,
            inventory=load_inventory(ON_FLINK if flink else SITES),
            registry=installed(),
            root=(tmp_path, ROOT),
            default_name=block.page.stem,
        )
        jobs = loaded.composition.jobs.values()
        # A query that is cut is several jobs, NAME.INPUT and NAME.rest.
        names = (each.job_name.partition(".")[0] if each.query else each.job_name for each in jobs)
        entries = {each.template or name for each, name in zip(jobs, names, strict=True)}
        assert len(entries) == len(data["jobs"])


def make_code(path: Path, entry_class: str) -> None:
    """A file that has the class or function."""
    path.parent.mkdir(parents=True, exist_ok=True)
    module, _, function = entry_class.rpartition(".")
    text = f"def {function}(messages, **arguments):\n    return messages\n"
    if path.suffix == ".py":
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    elif path.suffix == ".jar":
        make_jar(path, entry_class)
    else:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{module.replace('.', '/')}.py", text)


@pytest.mark.parametrize("block", of_language("toml", "json"))
def test_data_can_be_read(block: Block) -> None:
    assert tomllib.loads(block.text) if block.language == "toml" else json.loads(block.text)


@pytest.mark.parametrize("block", of_language("python"))
def test_python_compiles_and_runs_where_it_stands_alone(block: Block) -> None:
    code = compile(block.text, str(block), "exec")
    if "fragment" in block.notes or "file" in block.notes or not can_import(block.text):
        return
    # A name of its own, so that `if __name__ == "__main__"` is not taken.
    exec(code, {"__name__": "block"})  # noqa: S102 - the documentation is ours


def can_import(text: str) -> bool:
    """True if all that a program imports is installed here."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return all(map(_is_there, names))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that it is in
        return False


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", all_pages())
def test_commands_are_there(page: Path) -> None:
    found = []
    for block in blocks(page):
        typed = block.language in ("sh", "console")
        lines = [step.command for step in steps(block)] if typed else block.lines
        if typed or block.language in ("bash", "text", ""):
            found += [(block.line, each, fault(words(each))) for each in lines if known(each)]
    for program in ("speck", "make", "python"):
        for number, code in inline_commands(page, program):
            found.append((number, code, fault(words(code), whole=False)))
    wrong = [f"{page.name}:{number}: {line}: {problem}" for number, line, problem in found if problem]
    assert not wrong, "\n".join(wrong)


def known(line: str) -> bool:
    """True if a line begins with a known program."""
    return line.lstrip("$ ").split(" ")[0].rsplit("/", 1)[-1] in ("speck", "make", "python")


def test_a_wrong_command_is_found() -> None:
    for line in (
        "speck aply FILE",
        "speck apply FILE --mesage x",
        "speck apply",
        "speck history one two",
        "speck store mend",
        "make demonstration",
        "python -m benchmarks.nothing",
        "python -m benchmarks.plan --nothing",
    ):
        assert fault(words(line)), line
    for line in (
        "speck --server http://h:1 jobs --json",
        "speck store backup FILE",
        "make demo ARGS='--keep'",
    ):
        assert fault(words(line)) is None, line


# The page, the heading, and the number of commands: every command that no test runs is listed here.  They
# change the machine as root, need a second one, or run elsewhere, as the note beside them explains.
NOT_RUN = [
    ("README.md", "Try it", 2),
    ("agents.md", "Set up", 2),
    ("agents.md", "Set up", 7),
    ("agents.md", "Without codes", 2),
    ("agents.md", "Upgrade", 2),
    ("agents.md", "The program of a site", 1),
    ("agents.md", "At the site", 2),
    ("agents.md", "On one machine", 2),
    ("apply.md", "In waves", 1),
    ("demo.md", "Everything in the cloud", 6),
    ("editors.md", "Completion and checks in an editor", 2),
    ("faults.md", "Moving off a site that does not answer", 1),
    ("flink-jobs.md", "A program in ten lines", 1),
    ("flink.md", "Flink", 1),
    ("geofencing.md", "Run it", 8),
    ("geofencing.md", "Functions of your own", 1),
    ("history.md", "History: revisions, rollback, the audit log", 2),
    ("kafka.md", "On this machine", 1),
    ("key-splitting.md", "When a split pays off", 1),
    ("local.md", "Sites on one machine", 1),
    ("local.md", "Sites on one machine", 1),
    ("loss-trials.md", "Test your own program", 1),
    ("mqtt.md", "Owners", 3),
    ("mqtt.md", "A number that no coordinator gives", 1),
    ("nexmark.md", "Try it", 7),
    ("operating.md", "Upgrade", 6),
    ("raspberry-pi.md", "What to install", 2),
    ("raspberry-pi.md", "Many boards", 2),
    ("raspberry-pi.md", "Settings for little memory", 4),
    ("raspberry-pi.md", "Flink in one process", 5),
    ("raspberry-pi.md", "Flink in one process", 4),
    ("rest.md", "By curl", 6),
    ("rest.md", "Code", 1),
    ("security.md", "In short: a server that others can reach", 4),
    ("security.md", "In short: a server that others can reach", 4),
    ("sites.md", "What runs where", 1),
    ("sites.md", "The broker", 8),
    ("sites.md", "The engine", 6),
    ("sites.md", "The engine", 3),
    ("sites.md", "The coordinator", 7),
    ("spark-jobs.md", "A site's server", 1),
    ("sql.md", "SQL jobs", 5),
    ("sql.md", "Fields", 1),
    ("standby.md", "Set up", 4),
    ("store.md", "Adopting", 3),
    ("topics.md", "Schemas from messages, and checks", 1),
    ("topics.md", "Schemas from messages, and checks", 1),
    ("tutorial.md", "Install", 3),
    ("workers.md", "On this machine", 2),
]


def test_what_is_not_run_is_known_and_says_why() -> None:
    found = [each for each in BLOCKS if each.language in ("sh", "console") and "not run" in each.notes]
    assert [(each.page.name, each.heading, len(steps(each))) for each in found] == NOT_RUN
    for block in found:
        assert len(block.notes["not run"]) > 10, f"{block}: why is it not run?"


def test_what_a_reader_types_is_marked_as_commands() -> None:
    """In a block of another language nobody would run it."""
    typed = [
        f"{block}: {line}"
        for block in BLOCKS
        if block.language in ("bash", "text", "")
        for line in block.lines
        if re.match(r"[$#] |(?:sudo|speck|make|python3?|pip|curl|export|cp|cd) ", line)
    ]
    assert not typed


@pytest.fixture(scope="module")
def keys_of_flink() -> str:
    """The texts in the classes that name Flink's settings."""
    try:
        (jar,) = flink_home().glob("lib/flink-dist-*.jar")
    except LocalError as error:
        pytest.skip(str(error))
    with zipfile.ZipFile(jar) as archive:
        of_settings = [each for each in archive.namelist() if "/configuration/" in each]
        return b"\n".join(archive.read(each) for each in of_settings).decode("latin-1")


@pytest.mark.parametrize("block", of_language("yaml", "properties"))
def test_settings_of_flink_are_settings_of_flink(block: Block, keys_of_flink: str) -> None:
    """Flink takes any name without a word."""
    keys = re.findall(r"^([a-z][\w.-]*\.[\w.-]+): ", block.text, re.MULTILINE)
    assert [key for key in keys if key not in keys_of_flink] == []


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["agents.md", "operating.md", "tutorial.md"])
def test_messages_that_a_reader_looks_up_are_those_of_the_program(name: str) -> None:
    quoted = re.findall(r'^\| "([^"]+)"', (ROOT / "docs" / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(quoted) > 2
    # A message is written in pieces, one a line.
    source = " ".join(
        re.sub(r'"\s*f?"', "", path.read_text(encoding="utf-8"))
        for folder in ("speck", "binders")
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    assert [each for each in quoted if each not in source] == []


# --- the references -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return rest.document()


@pytest.mark.parametrize("schema", [CompositionSchema(), InventorySchema()], ids=["composition", "inventory"])
def test_every_field_is_described(schema: Any) -> None:
    bare = [
        f"{fields.title(of)}.{name}"
        for of, name, field in fields.written_fields(schema)
        if not fields.describe(field)
    ]
    assert not bare


def test_every_path_and_parameter_is_described(document: dict[str, Any]) -> None:
    bare = []
    for method, path, operation in rest.operations(document):
        if not operation.get("summary"):
            bare.append(f"{method} {path}")
        for parameter in (rest.resolved(each, document) for each in operation["parameters"]):
            if not (parameter.get("description") or parameter.get("schema", {}).get("description")):
                bare.append(f"{method} {path} {parameter['name']}")
    assert not bare


def test_every_field_of_an_answer_is_described(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, data in schema.get("properties", {}).items()
        if not data.get("description") and "$ref" not in data and "$ref" not in data.get("items", {})
    ]
    assert not bare


def test_every_command_and_option_has_help() -> None:
    bare = []
    for path, command in commands.tree():
        if not command.help:
            bare.append(" ".join(path))
        bare += [
            f"{' '.join(path)} {option.opts[0]}"
            for option in command.params
            if hasattr(option, "help") and hasattr(option, "is_flag") and not option.help
        ]
    assert not bare


def test_every_command_and_path_is_in_its_reference(document: dict[str, Any]) -> None:
    page = commands.page()
    for path, _ in commands.tree():
        assert f"## {' '.join(path)}\n" in page
    page = rest.page(document)
    for method, path, _ in rest.operations(document):
        assert f"## {method} {path}\n" in page


# --- the site ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as ``make docs`` builds it: by that command, if nothing has changed since.

    Otherwise, in a trial, it is built here.  What Sphinx warns of is an error.
    """
    built = ROOT / "build" / "docs"
    if is_newer(built / "index.html", *(ROOT / name for name in ("docs", "speck", "binders"))):
        return built
    skip_trial("the same in make check, which builds the site")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-E", "-q", "-W", "--keep-going", "-d", place / "doctrees"]
    done = subprocess.run(
        [*command, ROOT / "docs", place / "html"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return place / "html"


def is_newer(built: Path, *folders: Path) -> bool:
    """True if neither a page nor a module of these folders was changed after a file was built."""
    if not built.exists():
        return False
    sources = (each for folder in folders for each in folder.rglob("*") if each.is_file())
    changed = (each.stat().st_mtime for each in sources if each.suffix not in (".jar", ".pyc"))
    return built.stat().st_mtime > max(changed, default=0.0)


def test_a_site_older_than_one_of_its_pages_is_built_again(tmp_path: Path) -> None:
    built, page, jar = (tmp_path / name for name in ("built", "docs/page.md", "docs/new.jar"))
    page.parent.mkdir()
    assert not is_newer(built, tmp_path / "docs")
    for path, time in ((page, 1000), (built, 2000), (jar, 3000)):
        path.write_text("")
        os.utime(path, (time, time))
    assert is_newer(built, tmp_path / "docs")
    os.utime(page, (4000, 4000))
    assert not is_newer(built, tmp_path / "docs")


@pytest.mark.slow("builds all pages, as make check does")
def test_the_site_is_read_without_a_network(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//"""
    )
    found = [page.name for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))]
    found += [
        sheet.name
        for sheet in site.rglob("*.css")
        if re.search(r"url\([\"']?https?://|@import [\"']?(https?:)?//", sheet.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.slow("builds all pages, as make check does")
def test_every_page_is_in_the_navigation(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]:
        if page.stem != "index":
            target = page.relative_to(ROOT / "docs").with_suffix(".html")
            assert f'class="reference internal" href="{target}"' in index, page.name


# --- what else is shown ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", sorted((ROOT / "docs" / "pictures").glob("*.dot")), ids=lambda path: path.stem
)
def test_a_picture_is_that_of_its_source(source: Path) -> None:
    drawn = html.unescape(source.with_suffix(".svg").read_text(encoding="utf-8"))
    text = source.read_text(encoding="utf-8")
    for label in set(re.findall(r'label="([^"]*)"', text)):
        for line in filter(None, map(str.strip, label.split("\\n"))):
            found = re.search(rf">\s*{re.escape(line)}</text>", drawn)
            assert found, f"{source.name}: {line!r} is not in the drawing (make pictures)"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_units_are_sound(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "scripts" / "systemd", tmp_path / "units")
    # What the package mosquitto brings, and our addition stands beside.
    (folder / "mosquitto.service").write_text("[Service]\nExecStart=/opt/mosquitto\n")
    units = sorted(folder.glob("*.service"))
    for unit in units:
        text = unit.read_text(encoding="utf-8")
        for program in re.findall(r"^ExecStart=(/opt\S+)", text, re.MULTILINE):
            make_program(tmp_path / program[1:])  # systemd looks whether it is there
        unit.write_text(text.replace("ExecStart=/opt", f"ExecStart={tmp_path}/opt"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "speck" in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_coordinator_s_unit_starts_what_there_is() -> None:
    text = (ROOT / "scripts" / "systemd" / "speck.service").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ExecStart=(.+)", text, re.MULTILINE)
    assert (words(command)[1], fault(words(command))) == ("serve", None)


def test_the_packages_for_arm64_are_those_that_are_pinned() -> None:
    page = (ROOT / "docs" / "raspberry-pi.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([\d.]+) \|", page, re.MULTILINE))
    (others,) = re.findall(r"^\| (\d+) others \|", page, re.MULTILINE)
    versions, names = arm64_wheels.pinned(), arm64_wheels.needed()
    assert listed == {name: versions[name] for name in listed}
    assert listed.keys() <= names
    compiled = {name for name in names - listed.keys() if not is_python_alone(name)}
    assert (compiled, len(names) - len(listed)) == (set(), int(others))


def is_python_alone(package: str) -> bool:
    """True if the installed wheel of a package is for any machine."""
    (wheel,) = (each for each in importlib.metadata.files(package) or () if each.name == "WHEEL")
    return "-none-any" in wheel.read_text()


def make_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("page", all_pages())
def test_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(
        re.findall(
            r"(?<![.\w/])(?:\.\./)?((?:tests|speck|binders|pipelines|scripts|benchmarks)/[\w./-]+\.[a-z]+\b)",
            text,
        )
    )
    assert not [each for each in sorted(named) if not (ROOT / each).exists() and "/jars/" not in each]


RUN_ELSEWHERE = {
    "binders.md": "tests/docs/test_binders_page.py",
    "geofencing.md": "tests/apps/test_geofencing_functions.py",
    "sql.md": "tests/sql/test_page.py",
    "topics.md": "tests/cli/test_topics.py",
}


def test_no_page_is_left_out() -> None:
    for name, module in RUN_ELSEWHERE.items():
        assert name in (ROOT / module).read_text(encoding="utf-8"), f"{module} does not read {name}"
    run = {README.name, TUTORIAL.name, *IN_THE_SAME_WORLD, *RUN_ELSEWHERE}
    missing = [str(block) for page in PAGES if page.name not in run for block in typed(page)]
    assert not missing, "neither run here nor marked <!-- not run: WHY -->"
