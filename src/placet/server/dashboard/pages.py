"""The pages, and the frame that all have: head, navigation, form to sign in, and scripts.

A page is a row of this file, and a file with its content. It is made once of constants, so that a
server sends the same bytes to every reader.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final, NamedTuple


class ServedPage(NamedTuple):
    """A page of the server: the parts with which it fills the frame.

    Attributes:
        name: Its title, and its name in the navigation.
        address: Its path without the slash; empty for the first page of a server.
        content: The file with its main part.
        script: The module that it loads.
        sign_in: Text of its form to sign in about the token, as HTML.
        without_script: Text for a browser without scripts, as HTML.
        styles: Its style sheets beside `style.css`.
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

DASHBOARD: Final = ServedPage(
    "Dashboard",
    "",
    "page.html",
    "main.js",
    "The page shows everything to the token of the operator, and its view to that of an agent. "
    "<code>placet serve</code> prints the operator&rsquo;s token if none is configured; "
    "<code>placet token new</code> creates others.",
    f"This page reads the world with a script. {_BY_HAND}",
)
APPROVALS: Final = ServedPage(
    "Approvals",
    "approvals",
    "approvals.html",
    "approvals_page.js",
    "The token says who you are: the requests that your roles may decide are shown, and a decision "
    "is recorded with your name.",
    f"This page reads the requests with a script. {_BY_HAND}",
    layout="narrow",
)
PLAYER: Final = ServedPage(
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
RUNS: Final = ServedPage(
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
COMPARE: Final = ServedPage(
    "Compare",
    "compare",
    "compare.html",
    "compare.js",
    f"The comparison shows everything that the logs hold, so it {_OF_THE_OPERATOR}",
    "This page compares two runs with a script. Without one: <code>placet compare</code>.",
    ("runs.css",),
)
API: Final = ServedPage(
    "API",
    "docs",
    "docs.html",
    "docs.js",
    "Requests that this page sends have the token, and do what its reader may do.",
    "This page shows the API with a script. Without one: <code>openapi.json</code>, by hand.",
    ("docs.css",),
)


@cache
def render(page: ServedPage, pages: Sequence[ServedPage]) -> bytes:
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


def _navigation(page: ServedPage, pages: Sequence[ServedPage]) -> str:
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
