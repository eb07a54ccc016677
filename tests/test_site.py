"""The sources of `make site`: each page of its menu exists, and each way in is in it."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
CONFIG = (DOCS / "site" / "mkdocs.yml").read_text("utf-8")
#: Pages that the site has elsewhere
MOVED = {"index.md": "site/home.md", "contents.md": "index.md"}


def test_every_page_of_the_menu_exists() -> None:
    pages = re.findall(r"^\s+- (?:[\w ]+: )?([\w/.-]+\.md)$", CONFIG, re.MULTILINE)
    assert len(pages) >= 30
    for page in pages:
        path = str(MOVED.get(page, page)).replace("repository/", "../")
        assert (DOCS / path).exists(), page


def test_every_public_name_is_in_the_reference() -> None:
    import highwater

    page = (DOCS / "site" / "reference.md").read_text("utf-8")
    modules = {"assignors", "prechecks"}  # these have pages of their own
    assert sorted(re.findall(r"^::: highwater\.(\w+)$", page, re.MULTILINE)) == sorted(
        set(highwater.__all__) - modules
    )


def test_nothing_is_fetched_but_what_the_site_has() -> None:
    """The theme would load fonts, and a script for search without a server, from others."""
    assert "font: false" in CONFIG
    assert "iframe-worker 1.0.4" in (DOCS / "site" / "iframe-worker.js").read_text("utf-8")
