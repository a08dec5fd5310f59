"""The generated pages are what the tools generate; the site knows every page."""

from __future__ import annotations

import re

import pytest

from support.pages import DOCS, HOUSE, name
from tools.reference import PAGES, describe_commands, main
from tools.site_links import name_repository_file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_current(page):
    assert page.read_text(encoding="utf-8") == PAGES[page](), "run `python -m tools.reference`"


def test_a_page_that_is_out_of_date_is_noticed(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr("tools.reference.PAGES", {page: describe_commands})
    monkeypatch.setattr("sys.argv", ["reference", "--check"])
    with pytest.raises(SystemExit, match=r"out of date: page.md"):
        main()
    assert page.read_text() == "old"
    monkeypatch.setattr("sys.argv", ["reference"])
    main()
    assert "## `mmfl run`" in page.read_text()


def test_every_key_is_described():
    text = (HOUSE / "docs/reference/configuration.md").read_text()
    for key in ("`rounds`", "`max_norm`", "`crop`", "`correlation`", "`strikes`", "`workers`"):
        assert f"| {key} |" in text


def test_every_key_has_a_type_and_a_meaning():
    text = (HOUSE / "docs/reference/configuration.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .*? \| (.*) \|$", text, flags=re.M)
    assert len(rows) > 150
    assert [key for key, kind, meaning in rows if "anything" in kind or not meaning.strip()] == []


def test_a_range_is_a_list_of_two():
    text = (HOUSE / "docs/reference/configuration.md").read_text()
    types = set(re.findall(r"^\| `points` \| (.*?) \|", text, flags=re.M))
    assert types == {"integer ≥ 1 or list of 2: integer ≥ 1"}


def test_the_site_has_every_page():
    text = (HOUSE / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = [f"docs/{page}" for page in re.findall(r"[\w/-]+\.md", text)]
    assert sorted(listed) == sorted(map(name, DOCS))


def test_a_broken_link_fails_the_build():
    """MkDocs counts warnings only while it shows them, so the build must not be quiet."""
    rule = (HOUSE / "Makefile").read_text().split("\ndocs:")[1].split("\n\n")[0]
    assert "mkdocs build --strict" in rule
    assert not re.search(r" (-q|--quiet)\b", rule)


def test_the_index_names_every_how_to():
    text = (HOUSE / "docs/index.md").read_text()
    assert all(f"(how-to/{path.name})" in text for path in (HOUSE / "docs/how-to").glob("*.md"))


def test_a_link_out_of_the_docs_becomes_a_path():
    folder = HOUSE / "docs/how-to"
    link = "[examples](../../examples/README.md)"
    shown = name_repository_file(link, "examples", "../../examples/README.md", folder)
    assert shown == "examples (`examples/README.md`)"
    inside = "[the tutorial](../tutorial.md)"
    assert name_repository_file(inside, "the tutorial", "../tutorial.md", folder) == inside
    with pytest.raises(FileNotFoundError, match=r"no file \.\./\.\./nothing"):
        name_repository_file("", "x", "../../nothing", folder)
