"""Build the site of the documentation: the pages of docs/, the examples, and the Python API.

    ./dev python -m docs.site      # writes build/site/index.html and its pages

The pages of this folder are copied to build/pages, each link to a file of the repository becomes a
link to its page, and Zensical makes HTML of them. The reference of the Python API is written there
too: a page for each module of `docs.python_api`. The pages work without a network and as files,
search included. A warning of Zensical, a broken link, a script, style or picture from outside, a
public name without a docstring and a page above `PAGE_BYTES_MAX` are errors.
"""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from docs import python_api

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build"
PAGES: Final = BUILD / "pages"
SITE: Final = BUILD / "site"
CONFIG: Final = BUILD / "zensical.toml"
PAGE_BYTES_MAX: Final = 1_000_000

SECTIONS: Final = {
    "tutorials": "Tutorials",
    "guides": "Guides",
    "concepts": "Concepts",
    "reference": "Reference",
    "api": "Python API",
    "examples": "Examples",
    "plugins": "Plug-ins",
    "internals": "Internals",
    "decisions": "Decisions",
    "project": "Project",
}
"""Folder of the site -> its title in the navigation, in the order of the navigation."""

WORKER_SCRIPT: Final = PurePosixPath("docs/theme/iframe_worker.js")
"""Lets the search run in a page that is opened as a file, where a browser starts no worker."""

_WORKER_ADDRESS: Final = "https://unpkg.com/iframe-worker/shim"
_OUTSIDE: Final = re.compile(r"(?<=[\"'`(])https?://(?!www\.w3\.org/)[\w./@-]*")
"""An address in a script or a style, but for the names of XML namespaces."""

_LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE: Final = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


# ---------------------------------------------------------------- pages


_CODE: Final = frozenset({".html", ".py", ".toml"})
"""Files of code that have a page."""


def site_path(path: PurePosixPath) -> str | None:
    """Return the path on the site of a file of the repository; None if it has no page there."""
    match path.parts:
        case ("docs", "reference", "python_api.md"):
            return "api/index.md"
        case ("docs", *rest) if path.suffix in {".md", ".svg", ".webp", ".js", ".css"}:
            return "/".join(rest)
        case ("docs", "decisions"):
            return "decisions/0001-record-decisions-and-layer-packages.md"
        case ("plugins", plugin, "README.md"):
            return f"plugins/{plugin}.md"
        case ("plugins", _, "docs", name):
            return f"plugins/{name}"
        case ("examples", "README.md"):
            return "examples/index.md"
        case ("examples", _) if path.suffix in _CODE:
            suffix = "" if path.suffix == ".py" else path.suffix.replace(".", "_")
            return f"examples/{path.stem}{suffix}.md"
        case ("src", "placet", "scenarios", "builtin", _):
            return f"examples/bundled/{path.stem}.md"
        case (name,) if path.suffix == ".md":
            return f"project/{'overview.md' if name == 'README.md' else name.lower()}"
        case ("LICENSE",):
            return "project/license.md"
        case ("src" | "plugins", *_) if path.suffix == ".py":
            return python_api.page_of_source(path)
    return None


def sources() -> Iterator[PurePosixPath]:
    """Yield the files of the repository that have a page or are a picture of one."""
    patterns = (
        "*.md", "LICENSE", "docs/**/*.md", "docs/**/*.svg", "docs/**/*.webp", "plugins/*/README.md",
        "plugins/*/docs/*.md", "examples/*.md", "examples/*.py", "examples/*.toml",
        "examples/*.html",
        "src/placet/scenarios/builtin/[a-z]*.py", "docs/theme/*",
    )  # fmt: skip
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield PurePosixPath(path.relative_to(ROOT))


def linked(text: str, source: PurePosixPath, place: str) -> str:
    """Return Markdown whose links to files of the repository are links to pages of the site.

    Args:
        text: The Markdown of a page. Code between fences stays as it is.
        source: Its path in the repository.
        place: Its path on the site.
    """

    def link(match: re.Match[str]) -> str:
        start, target, anchor = match[1], match[2], match[3] or ""
        if urlsplit(target).scheme:
            return match[0]
        file = PurePosixPath(posixpath.normpath(source.parent / target))
        page = site_path(file)
        if page is None:
            raise BrokenLink(f"{source}: {target} is no file with a page on the site")
        return start + posixpath.relpath(page, posixpath.dirname(place) or ".") + anchor

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


class BrokenLink(Exception):  # noqa: N818  # the name states the fault
    """A link of a page leads to no file that is on the site."""


def copied(source: PurePosixPath, place: str) -> bytes:
    """Return the content of a page or a picture of the site."""
    content = (ROOT / source).read_bytes()
    if source.suffix == ".md":
        return linked(content.decode(), source, place).encode()
    if source.suffix in _CODE:
        language = source.suffix.removeprefix(".").replace("py", "python")
        name = "/".join(source.parts[-2:]) if source.parts[0] == "src" else source.name
        return f"# {name}\n\n````{language}\n{content.decode()}````\n".encode()
    if source.name == "LICENSE":
        return f"# License\n\n```text\n{content.decode()}```\n".encode()
    return content


def write_pages() -> None:
    """Write the folder of which Zensical makes the site."""
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = {place: copied(source, place) for source in sources() if (place := site_path(source))}
    pages |= {place: text.encode() for place, text in python_api.pages().items()}
    for place, content in pages.items():
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    CONFIG.write_text(configured(navigation(pages)), encoding="utf-8")


def title_of(place: str) -> str:
    """Return the title of a page in the navigation: its first heading, short and without marks."""
    text = (PAGES / place).read_text(encoding="utf-8")
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert heading, f"{place} has no heading"
    title = heading[1].replace("`", "")
    return title if place.startswith("decisions/") else title.partition(": ")[0]


def navigation(pages: Iterable[str]) -> dict[str, str | list[dict[str, str]]]:
    """Return the navigation: the sections, and in each its pages in the order of the index."""
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    order = [match[2] for match in _LINK.finditer(index)]

    def position(place: str) -> tuple[bool, int, str]:
        is_first = place.endswith(("/index.md", "/overview.md"))
        is_named = place in order and not is_first
        depth = place.count(".") + 10 * place.startswith("api/placet_")  # plug-ins after placet
        return not is_first, order.index(place) if is_named else len(order) + depth, place

    texts = sorted((place for place in pages if place.endswith(".md")), key=position)
    sections = {
        title: [{title_of(p): p} for p in texts if p.startswith(f"{folder}/")]
        for folder, title in SECTIONS.items()
    }
    return {"Start": "index.md", "Gallery": "gallery.md", **sections}


def configured(pages: dict[str, str | list[dict[str, str]]]) -> str:
    """Return the configuration of Zensical."""
    lines = (f"{{ {json.dumps(name)} = {toml_of(value)} }}," for name, value in pages.items())
    template = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    return template.replace("nav = []", "nav = [\n" + "\n".join(lines) + "\n]")


def toml_of(value: str | list[dict[str, str]]) -> str:
    """Return a value of the navigation as TOML."""
    if isinstance(value, str):
        return json.dumps(value)
    pairs = (
        f"{json.dumps(name)} = {json.dumps(place)}" for e in value for name, place in e.items()
    )
    return "[" + ", ".join("{ " + pair + " }" for pair in pairs) + "]"


# ---------------------------------------------------------------- no network


def keep_inside(site: Path) -> None:
    """Replace the addresses from which the theme would load scripts and styles.

    The script of the search is a copy of ours. The others are for features that no page uses:
    their addresses become empty.
    """
    script = site_path(WORKER_SCRIPT)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        here = os.path.relpath(f"{site}/{script}", page.parent)
        page.write_text(text.replace(_WORKER_ADDRESS, here), encoding="utf-8")
    for file in (site / "assets").rglob("*.js"):
        file.write_text(_OUTSIDE.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")


# ---------------------------------------------------------------- checks


class _Page(HTMLParser):
    """The anchors of a page, the addresses to which it links, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"}:
                self.anchors.add(value or "")
            elif value and (name == "src" or (name, tag) == ("href", "link")):
                self.loaded.add(value)
            elif value and (name, tag) == ("href", "a"):
                self.links.add(value)


def faults(site: Path) -> list[str]:
    """Return a line for each broken link, file from outside, and page that is too large."""
    read = {path: _Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in read.items():
        name = path.relative_to(site)
        if (size := path.stat().st_size) > PAGE_BYTES_MAX:
            found.append(f"{name}: {size} bytes, at most {PAGE_BYTES_MAX}")
        found += [f"{name}: {link} leads nowhere" for link in sorted(page.links | page.loaded)
                  if not leads_somewhere(link, path, site, read)]  # fmt: skip
        found += [f"{name}: loads {link}" for link in sorted(page.loaded) if is_outside(link)]
    for path in sorted((site / "assets").rglob("*.[cj]s*")):
        addresses = _OUTSIDE.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: names {address}" for address in addresses]
    return found


def is_outside(link: str) -> bool:
    """Return whether a link leads out of the site; what a page has in itself, `data:`, does not."""
    parts = urlsplit(link)
    return bool(parts.netloc or parts.scheme) and parts.scheme != "data"


def leads_somewhere(link: str, path: Path, site: Path, read: dict[Path, _Page]) -> bool:
    """Return whether a link of a page leads to a file of the site and to an anchor of it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = path
    if parts.path:
        folder = site if parts.path.startswith("/") else path.parent
        target = (folder / unquote(parts.path).lstrip("/")).resolve()
        target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    if not parts.fragment or target not in read:
        return True
    return parts.fragment == "__top" or unquote(parts.fragment) in read[target].anchors


def build() -> list[str]:
    """Build the site and return what is wrong with it, a line each."""
    BUILD.mkdir(exist_ok=True)
    write_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(CONFIG)]
    done = subprocess.run(
        command,
        cwd=BUILD,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    output = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    if done.returncode:
        return output
    if warned := [
        line for line in output if line.startswith("griffe: ")
    ]:  # not counted by --strict
        return warned
    keep_inside(SITE)
    return [*python_api.undocumented(), *faults(SITE)]


def main() -> int:
    """Build the site and print the number of its pages, or what is wrong."""
    found = build()
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
