"""The documentation as a site: Sphinx reads the pages as they stand in the checkout, from its root.

Pages are linked by their paths, as in the checkout. The site's navigation is the index of the documentation: what
docs/README.md lists under each of its headings.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(r"^#+ (.+?)\n(.*?)(?=^#+ |\Z)", re.MULTILINE | re.DOTALL)
_LISTED = re.compile(r"^(?:\* |\d+\. |  ).*", re.MULTILINE)
_PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")

project = "Tonnage"
copyright = "Tonnage's authors"
version = re.search(r'__version__ = "(.+)"', (ROOT / "src/tonnage/__init__.py").read_text())[1]  # type: ignore[index]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "examples/*.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "bench", "peers", "release", "deploy"]
# Headings are linked to as in the checkout's own pages.
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Tonnage {version}"
html_copy_source = False
html_show_sourcelink = False
templates_path: list[str] = []
pygments_style = "friendly"
# Some listings leave lines out with "…"; a page that no index lists is found by links and by searching.
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]


def add_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    """Give an index, which is any README under docs/, the pages that it lists, section by section, as navigation."""
    if not page.startswith("docs/") or not page.endswith("README"):
        return
    listed: set[str] = set()
    for title, section in _SECTION.findall(content[0]):
        pages = [name for line in _LISTED.findall(section) for name in _PAGE.findall(line)]
        new = [name for name in dict.fromkeys(pages) if name not in listed]
        if new:
            content[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {title}", "", *new, "```\n"])
        listed.update(new)


def begin_with_the_index(app: Sphinx, error: Exception | None) -> None:
    """Whoever opens the site's folder gets the index of the documentation."""
    page = f'<!doctype html><title>{project}</title><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
    (Path(app.outdir) / "index.html").write_text(page)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", begin_with_the_index)
