"""The pages, and the frame that all have: head, navigation, form to sign in, and scripts.

A page is a row of this file, and a file with its content. It is made once of constants, so that a
server sends the same bytes to every reader.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final, NamedTuple


class Page(NamedTuple):
    """A page: what it adds to the frame.

    Attributes:
        name: Its title, and its name in the navigation.
        address: Its path without the slash; empty for the first page of a server.
        content: The file with its main part.
        script: The module that it loads.
        sign_in: What its form to sign in says of the token, as HTML.
        without_script: What a reader without scripts is told, as HTML.
        styles: What it adds to `style.css`.
        layout: The class of its body.
        control: The file with controls of its header; empty for none.
    """

    name: str
    address: str
    content: str
    script: str
    sign_in: str
    without_script: str
    styles: tuple[str, ...] = ()
    layout: str = "page"
    control: str = ""


_CURRENT: Final = ' aria-current="page"'
_BY_HAND: Final = "Without one: <code>docs/reference/http_api.md</code>, by hand."
_OF_THE_OPERATOR: Final = (
    "needs the operator&rsquo;s token. <code>placet play</code> prints one if none is configured."
)

DASHBOARD: Final = Page(
    "Dashboard",
    "",
    "page.html",
    "main.js",
    "The token decides what is shown: everything to the operator, its view to an agent. "
    "<code>placet serve</code> prints the operator&rsquo;s token if none is configured; "
    "<code>placet token new</code> creates others.",
    f"This page reads the world with a script. {_BY_HAND}",
)
APPROVALS: Final = Page(
    "Approvals",
    "approvals",
    "approvals.html",
    "approvals_page.js",
    "The token says who you are: the requests that your roles may decide are shown, and a decision "
    "is recorded with your name.",
    f"This page reads the requests with a script. {_BY_HAND}",
    layout="narrow",
)
PLAYER: Final = Page(
    "Player",
    "play",
    "player.html",
    "player.js",
    f"The player shows everything that a log holds, so it {_OF_THE_OPERATOR}",
    "This page reads the log with a script. Without one: <code>placet log</code> and "
    "<code>placet explain</code>.",
    ("player.css",),
    "player",
    "player_control.html",
)
RUNS: Final = Page(
    "Runs",
    "",
    "runs.html",
    "runs.js",
    f"The list shows everything that the logs hold, so it {_OF_THE_OPERATOR}",
    "This page lists the runs with a script. Without one: <code>placet log</code> and "
    "<code>placet compare</code>.",
    ("runs.css",),
    "wide",
)
COMPARE: Final = Page(
    "Compare",
    "compare",
    "compare.html",
    "compare.js",
    f"The comparison shows everything that the logs hold, so it {_OF_THE_OPERATOR}",
    "This page compares two runs with a script. Without one: <code>placet compare</code>.",
    ("runs.css",),
)
API: Final = Page(
    "API",
    "docs",
    "docs.html",
    "docs.js",
    "Requests that this page sends have the token, and do what its reader may do.",
    "This page shows the API with a script. Without one: <code>openapi.json</code>, by hand.",
    ("docs.css",),
)


@cache
def render(page: Page, pages: Sequence[Page]) -> bytes:
    """Return the HTML of a page.

    Args:
        page: The page.
        pages: The pages that its navigation links, a tuple; without any it has no navigation.
    """
    styles = "\n".join(
        f'<link rel="stylesheet" href="dashboard/{name}">' for name in ("style.css", *page.styles)
    )
    html = Template(file_text("frame.html")).substitute(
        page._asdict()
        | {
            "styles": styles,
            "navigation": _navigation(page, pages),
            "content": file_text(page.content),
            "control": file_text(page.control) if page.control else "",
        }
    )
    return html.encode()


def _navigation(page: Page, pages: Sequence[Page]) -> str:
    """Return the links to the pages of a server."""
    links = "".join(
        f'    <a href="{one.address or "./"}"{_CURRENT if one == page else ""}>{one.name}</a>\n'
        for one in pages
    )
    return f'  <nav aria-label="Pages">\n{links}  </nav>\n' if pages else ""


@cache
def file_text(name: str) -> str:
    """Return the text of a file of this folder."""
    return files(__package__).joinpath(name).read_text("utf-8")
