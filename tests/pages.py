"""The pages of the documentation, as tests of what they say go through them."""

from pathlib import Path

from tests.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder, pattern in ((ROOT, "*.md"), (DOCS, "**/*.md"), (ROOT / "examples", "*.md"))
    for page in folder.glob(pattern)
)


def named(page: Path) -> str:
    """The page's path in the checkout."""
    return str(page.relative_to(ROOT))
