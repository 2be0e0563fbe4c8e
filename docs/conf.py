"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import speck  # noqa: E402
from docs.generate import publish, write  # noqa: E402

project = "SpecK"
author = "the SpecK authors"
release = version = speck.__version__
extensions = ["myst_parser"]
exclude_patterns = ["generate", "published", "pictures/*.dot"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4

# What may not be: a page, an anchor or a picture that is not there.  Warnings are errors (make docs).
nitpicky = True

html_theme = "furo"
html_title = "SpecK"
html_static_path = ["static"]
html_extra_path = ["published"]
html_css_files = ["speck.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


def with_new_pages(_app: Any, name: str, text: list[str]) -> None:
    """Pages that the index does not name yet stand at its end, so that each can be found."""
    if name != "index":
        return
    new = [each.stem for each in sorted(HERE.glob("*.md")) if f"\n{each.stem}\n" not in text[0]]
    new = [each for each in new if each != "index"]
    if new:
        text[0] += "\n".join(["", "```{toctree}", ":caption: More", ":maxdepth: 1", "", *new, "```", ""])


def setup(app: Any) -> None:
    """Write the reference pages before Sphinx searches for pages."""
    app.connect("config-inited", lambda *_: publish(HERE / "published"))
    app.connect("builder-inited", lambda _: write(HERE / "reference"))
    app.connect("source-read", with_new_pages)
