"""The JavaScript client in a browser: two players of the example, and a server that restarts."""

import functools
import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from placet.schemas.identity import OPERATOR
from placet.server.credentials import KnownToken, entry_text, hash_of
from tests.browser.conftest import START_MS_MAX
from tests.server.process import Running, running

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENS = {name: f"token-of-{name}" for name in (OPERATOR, "ann", "bob")}
POSITION = "(name) => client.view.get(`world.agents/${name}`)?.position.slice(0, 2).join()"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """Serve the folder of examples, as a game's own server does; yield its origin."""
    handler = functools.partial(Quiet, directory=str(EXAMPLES))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def game(folder: Path, pages: str, *more: str) -> Iterator[Running]:
    known = [KnownToken(name, hash_of(token)) for name, token in TOKENS.items()]
    (folder / "tokens.toml").write_text("\n".join(map(entry_text, known)), "utf-8")
    origins = f'serve.cors_origins=["{pages}"]'
    arguments = ("--tokens", "tokens.toml", "--set", origins, *more)
    with running(folder, *arguments, token=TOKENS[OPERATOR]) as server:
        yield server


def register(server: Running) -> None:
    for name, position in (("ann", [2, 3]), ("bob", [8, 3])):
        body = {"agent_id": name, "attributes": {"position": position}}
        assert server.post("agents", body).status_code == 201


@contextmanager
def player(browser: Browser, pages: str, url: str, name: str) -> Iterator[Page]:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(START_MS_MAX)
        page.goto(f"{pages}/squares.html?server={url}#agent={name}&token={TOKENS[name]}")
        expect(page.get_by_role("status")).to_have_text(
            f"You are {name}. Move with the arrow keys."
        )
        yield page
    finally:
        context.close()


def wait_position(page: Page, name: str, position: str) -> None:
    page.wait_for_function(f"(wanted) => ({POSITION})({name!r}) === wanted", arg=position)


def pixel(page: Page, x: int, y: int) -> list[int]:
    """Return the color in the middle of a cell."""
    script = """([x, y]) => [...document.getElementById("field").getContext("2d")
        .getImageData(x * 40 + 20, y * 40 + 20, 1, 1).data]"""
    found: list[int] = page.evaluate(script, [x, y])
    return found


def test_each_of_two_players_sees_the_moves_of_the_other(browser, pages, tmp_path):
    with ExitStack() as stack:
        server = stack.enter_context(game(tmp_path, pages))
        register(server)
        url = server.told["url"]
        ann = stack.enter_context(player(browser, pages, url, "ann"))
        bob = stack.enter_context(player(browser, pages, url, "bob"))
        wait_position(bob, "ann", "2,3")
        ann.keyboard.press("ArrowRight")
        wait_position(bob, "ann", "3,3")
        ann.keyboard.press("ArrowDown")
        wait_position(bob, "ann", "3,4")
        bob.keyboard.press("ArrowUp")
        wait_position(ann, "bob", "8,2")
        bob.wait_for_function(
            """() => document.getElementById("field").getContext("2d")
                .getImageData(3 * 40 + 20, 4 * 40 + 20, 1, 1).data[3] === 255"""
        )
        assert pixel(bob, 3, 4) == [0x0B, 0x6E, 0x99, 255]
        assert pixel(bob, 2, 3)[3] == 0
        nothing = "client.submit({ kind: 'Nothing', payload: {} })"
        refused = ann.evaluate(f"{nothing}.then((verdict) => verdict.refusals[0].code)")
        assert refused == "kind_unknown"
        problem = "client.submit([{ kind: 'Move', payload: { text: 'x'.repeat(70_000) } }])"
        assert "at most 65536 bytes" in ann.evaluate(f"{problem}.catch((error) => error.message)")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_batches_without_a_verdict_are_sent_again_to_a_server_that_restarts(
    browser, pages, tmp_path
):
    port = ("--port", str(free_port()), "--store", "sqlite:///game.db")
    with ExitStack() as stack:
        with game(tmp_path, pages, *port) as first:
            register(first)
            url = first.told["url"]
            ann = stack.enter_context(player(browser, pages, url, "ann"))
            wait_position(ann, "ann", "2,3")
            # The log is paused, so no verdict comes before the server is gone.
            assert first.post("pause", {}).status_code == 200
            ann.evaluate(
                """() => { globalThis.verdicts = Promise.all([3, 4, 5].map((x) =>
                    client.submit({ kind: "Move", payload: { to: [x, 3] } }))); }"""
            )
            ann.wait_for_function("() => client.unanswered === 3")
        assert ann.evaluate("client.unanswered") == 3
        with game(tmp_path, pages, *port) as second:
            second.post("resume", {})
            told = ann.evaluate("verdicts.then((all) => all.map((one) => one.admitted))")
            assert told == [True, True, True]
            wait_position(ann, "ann", "5,3")
            ids = "client.verdictOf('nothing')"
            assert ann.evaluate(ids) is None


def test_a_token_that_the_server_does_not_know_ends_the_client(browser, pages, tmp_path):
    with game(tmp_path, pages) as server:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(START_MS_MAX)
        page.goto(f"{pages}/squares.html?server={server.told['url']}#agent=ann&token=no")
        expect(page.get_by_role("status")).to_have_text(
            "Closed: this needs a token that the server knows: "
            "send `Authorization: Bearer <token>`",
        )
        refused = page.evaluate("client.submit([]).catch((error) => error.message)")
        assert refused == "the client is closed; connect again"
        context.close()
