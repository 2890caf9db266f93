"""The site of the documentation: its links, its public names, and what its builder refuses.

`.ci/run checks` builds the site itself.
"""

from pathlib import PurePosixPath

import pytest

from docs import python_api, site
from placet.kernel import Draft
from tests.docs.test_examples import ROOT

OVERVIEW = PurePosixPath("docs/index.md")


def test_the_list_of_public_names_is_current():
    page = python_api.PAGE.read_text(encoding="utf-8")
    assert page == python_api.list_of_names(), "run ./dev python -m docs.python_api"


def test_every_public_name_has_a_docstring():
    assert python_api.undocumented() == []


def test_a_public_name_or_method_without_a_docstring_is_named(monkeypatch):
    class Silent:
        def method(self):
            return 1

    Silent.__module__ = "placet.kernel"
    monkeypatch.setattr("placet.kernel.Draft", Silent)
    assert python_api.undocumented() == [
        "placet.kernel.Draft has no docstring",
        "placet.kernel.Draft.method has no docstring",
    ]


def test_a_name_is_described_on_one_page_and_the_others_link_to_it():
    names = python_api.public_names()
    assert {"Domain", "Draft"} <= {*names["placet.kernel"]}
    kernel = python_api.pages()["api/placet.kernel.md"]
    assert "::: placet.kernel.Draft\n" in kernel
    assert "::: placet.kernel.Domain\n" not in kernel
    assert "[`Domain`][placet.Domain]" in kernel


def test_a_name_that_only_a_page_imports_is_public():
    assert "open_event_log" in python_api.public_names()["placet.stores.url"]


def test_a_link_to_a_file_becomes_a_link_to_its_page():
    text = "[a](../README.md#b) [c](guides/llm.md)\n\n```sh\n[d](e)\n```\n"
    assert site.linked(text, OVERVIEW, "index.md") == (
        "[a](project/overview.md#b) [c](guides/llm.md)\n\n```sh\n[d](e)\n```\n"
    )


def test_a_link_to_a_file_without_a_page_is_refused():
    with pytest.raises(site.BrokenLink, match=r"docs/index.md: \.\./dev is no file with a page"):
        site.linked("[a](../dev)", OVERVIEW, "index.md")


def test_every_page_of_the_documentation_is_on_the_site():
    placed = {str(source) for source in site.sources() if site.site_path(source)}
    assert {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")} <= placed


def test_broken_links_and_large_pages_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "PAGE_BYTES_MAX", 400)
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#ok">1</a><a href="#top">2</a>'
    )
    (tmp_path / "b.html").write_text(
        '<p id="ok"></p><a href="a.html#no">1</a><a href="c.html">2</a><img src="d.png">'
        '<a href="https://example.org/x">3</a>' + " " * 400
    )
    large, *broken = site.faults(tmp_path)
    assert large.startswith("b.html: ")
    assert broken == [f"b.html: {link} leads nowhere" for link in ("a.html#no", "c.html", "d.png")]


def test_a_script_or_style_from_outside_is_named(tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "a.js").write_text('// https://example.org\nf("https://cdn.example.org/x.js")')
    (assets / "b.css").write_text("a { src: url(http://example.org/y) } b { src: url(y.svg) }")
    (tmp_path / "a.html").write_text(
        '<script src="//example.org/s.js"></script><link href="https://example.org/t.css">'
        '<a href="https://example.org/u"></a><img src="data:image/png;base64,A">'
        '<script src="assets/a.js"></script>'
    )
    assert site.faults(tmp_path) == [
        "a.html: loads //example.org/s.js",
        "a.html: loads https://example.org/t.css",
        "assets/a.js: names https://cdn.example.org/x.js",
        "assets/b.css: names http://example.org/y",
    ]


def test_the_search_script_is_a_copy_and_the_theme_names_no_address(tmp_path):
    page, script = tmp_path / "guides" / "a.html", tmp_path / "assets" / "theme.js"
    for file in (page, script, tmp_path / "theme" / "iframe_worker.js"):
        file.parent.mkdir(exist_ok=True)
    (tmp_path / "theme" / "iframe_worker.js").write_text("")
    page.write_text('<script src="https://unpkg.com/iframe-worker/shim"></script>')
    script.write_text('load("https://unpkg.com/m@1/m.js"), svg("http://www.w3.org/2000/svg")')
    site.keep_inside(tmp_path)
    assert page.read_text() == '<script src="../theme/iframe_worker.js"></script>'
    assert script.read_text() == 'load(""), svg("http://www.w3.org/2000/svg")'
    assert site.faults(tmp_path) == []


def test_every_example_is_on_the_page_of_examples():
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    files = [*ROOT.glob("examples/*.*")]
    assert [
        file.name for file in files if f"`{file.name}`" not in page and file.name != "README.md"
    ] == []


def test_every_page_but_decisions_is_linked_from_the_index():
    index = (ROOT / OVERVIEW).read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/*/*.md")}
    lost = [
        str(page) for page in pages if f"({page})" not in index and "decisions" not in page.parts
    ]
    assert lost == []


def test_every_name_of_a_draft_for_rules_is_on_the_page_of_rules():
    page = (ROOT / "docs" / "guides" / "rules.md").read_text(encoding="utf-8")
    names = {name for name in vars(Draft) if not name.startswith("_")} - set(Draft.__slots__)
    assert {"put", "claim", "sim_time"} <= names
    assert [
        name for name in sorted(names) if f"draft.{name}" not in page and f"`{name}`" not in page
    ] == []
