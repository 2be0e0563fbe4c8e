"""Takes pictures of a dashboard that runs: ``python scripts/screenshots.py http://127.0.0.1:8180``.

They are written to ``docs/dashboard-light.png`` and ``docs/dashboard-dark.png``.  Needs what `make test`
brings: Chromium, its driver, and selenium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from testbed.servers.chromium import Page, missing, start  # noqa: E402

LARGEST = 300_000  # bytes


def main() -> None:
    """Take both pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", help="the server's address")
    parser.add_argument(
        "--view", default="", help="the part of the address behind the server, such as '#/sites'"
    )
    parser.add_argument("--name", default="dashboard", help="how the files are called")
    parser.add_argument("--directory", type=Path, default=ROOT / "docs")
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, default=860)
    parser.add_argument("--until", default="live", help="wait until the page shows this text")
    parser.add_argument("--open", default="", help="a job to open")
    options = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as directory:
        chrome = start(Path(directory))
        try:
            for face in ("light", "dark"):
                page = Page(chrome, options.url)
                page.media(prefers_color_scheme=face)
                page.open(options.view, options.width, options.height)
                page.sees("live")
                if options.open:
                    page.click(f'[data-job="{options.open}"]')
                page.ask("await new Promise((done) => setTimeout(done, 3000))")  # rates and sites come in
                page.sees(options.until)
                path = options.directory / f"{options.name}-{face}.png"
                chrome.save_screenshot(str(path))
                size = path.stat().st_size
                print(f"{path}: {size:,} bytes" + (", too large" if size > LARGEST else ""))
        finally:
            chrome.quit()


if __name__ == "__main__":
    main()
