"""The reference pages, generated from the program: schemas, OpenAPI document, commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.generate import commands, fields, partitioners, rest
from speck.schema.json_schema import schema_files

ROOT = Path(__file__).parent.parent.parent
_PICTURE = re.compile(r"\]\((?:\.\./)?([\w-]+\.svg)\)")
_METHOD = re.compile(r"\]\((\w+)/README\.md\)")  # from the page of all figures to that of a group
_FIGURES = "](../README.md)"


def pages() -> dict[str, str]:
    """The text (Markdown) of each page, by its file name."""
    return {
        "composition-fields.md": fields.composition_page(),
        "inventory-fields.md": fields.inventory_page(),
        "partitioners.md": partitioners.page(),
        "rest-paths.md": rest.page(rest.document()),
        "commands.md": commands.page(),
        **_benchmarks(),
        "changes.md": _read("CHANGELOG.md"),
    }


def write(directory: Path) -> None:
    """Write the pages; one that has not changed is left alone, so that it is not built again."""
    directory.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def publish(directory: Path) -> None:
    """Write the files for programs, which the site has beside its pages: schemas and the OpenAPI document."""
    directory.mkdir(exist_ok=True)
    for name, content in (*schema_files(), ("openapi.json", rest.document())):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _benchmarks() -> dict[str, str]:
    """The page of all figures, and a page for the method of each group."""
    groups = sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/README.md"))
    found = {f"benchmarks-{group}.md": _read(f"benchmarks/{group}/README.md") for group in groups}
    names = "\n".join(f"benchmarks-{group}" for group in groups)
    found["benchmarks.md"] = (
        _METHOD.sub(r"](benchmarks-\1.md)", _read("benchmarks/README.md"))
        + f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    return {
        name: _PICTURE.sub(r"](../../benchmarks/\1)", text).replace(_FIGURES, "](benchmarks.md)")
        for name, text in found.items()
    }


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
