"""The page of the requests for approval: a person decides on a phone, and sees what came of it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from placet.schemas.codec import Json
from tests.server.approval_desk import TOKENS
from tests.server.approval_server import DeskServer, running_desk

pytestmark = pytest.mark.slow

PHONE = {"width": 375, "height": 800}
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
LONG = "x" * 30_000 + "THE END"


@pytest.fixture
def desk() -> Iterator[DeskServer]:
    with running_desk() as server:
        yield server


@contextmanager
def page_of(
    browser: Browser, desk: DeskServer, token: str, path: str = "approvals"
) -> Iterator[Page]:
    """Open a page as a person, and check that nothing went wrong in it."""
    context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]  # a literal
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(f"{desk.url}/{path}#token={TOKENS[token]}")
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert errors == []
    context.close()


@contextmanager
def held_post(page: Page) -> Iterator[None]:
    """Hold the request that the page posts in the block, and send it when the block ends."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST":
            held.append(route)
        else:
            route.continue_()

    page.route("**/approvals/*", hold)
    with page.expect_request(lambda request: request.method == "POST"):
        yield
    with page.expect_response(lambda response: response.request.method == "POST"):
        held.pop().continue_()
    page.unroute("**/approvals/*")


def test_a_person_approves_and_sees_the_real_outcomes(browser, desk):
    calls = [["bank.send", {"answer": answer}] for answer in ("7", "failed", "doubt")]
    with page_of(browser, desk, "ann") as page:
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        desk.ask(*calls, ["desk.pay", {"to": "zoe", "euro": 50}], about={"goal": "pay zoe"})
        card = page.locator(".plan")  # it appears without a reload
        expect(card).to_contain_text("by alice")
        expect(card).to_contain_text("risk high")
        expect(card).to_contain_text(re.compile(r"59 min \d+ s left|60 min"))
        expect(card).to_contain_text("ann, bob, operator may decide")
        expect(card).to_contain_text(re.compile(r"asked (\d+.* ago|just now)"))
        expect(card.locator(".plan-changes li")).to_have_text(
            [
                "desk.paid/zoe/euro 50",
                "The function runs outside this world; placet does not know what it changes.",
            ]
        )
        expect(page).to_have_title("(1) Approvals · placet")
        card.get_by_label("Reason").fill("all right")
        card.get_by_role("button", name="Approve: pay zoe").click()
        expect(card.get_by_role("status")).to_have_text("approved by ann: all right")
        expect(card.locator(".status")).to_have_text(
            [re.compile("^done"), re.compile("^failed"), re.compile("^in doubt"), "done"]
        )
        expect(card.locator(".ended")).to_contain_text("2 done, 1 failed, 1 in doubt")
        expect(card).to_contain_text("no such account")
        expect(card.get_by_role("button")).to_have_count(0)
        page.reload()
        expect(card.get_by_role("status")).to_have_text("approved by ann: all right")


def test_a_person_settles_a_call_in_doubt(browser, desk):
    request = desk.ask(["bank.send", {"answer": "doubt", "to": HOSTILE, "text": LONG}])
    desk.decide(request)
    with page_of(browser, desk, "operator") as page:
        doubt = page.locator("#doubts .plan")  # it appears without a reload
        expect(doubt).to_contain_text("bank.send")
        expect(doubt).to_contain_text("by alice")
        expect(doubt).to_contain_text("the line went dead")
        expect(page.get_by_text("Nothing waits for a decision")).to_be_hidden()
        expect(page).to_have_title("(1) Approvals · placet")
        reason = doubt.get_by_label("How do you know?")
        reason.fill("the bank shows it")
        desk.ask(["desk.pay", {"to": "yan", "euro": 50}])
        expect(page.locator("#approvals .plan")).to_have_count(1)
        expect(reason).to_have_value("the bank shows it")
        if folder := os.environ.get("TEST_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/doubt.png", full_page=True)
        done = doubt.get_by_role("button", name="It was done: bank.send")
        expect(done).to_be_disabled()
        doubt.get_by_role("button", name="show everything").click()
        expect(doubt).to_contain_text("THE END")
        done.click()
        expect(page.locator("#doubts")).to_be_hidden()
    assert desk.get(f"approvals/{request}").json()["calls"][0]["status"] == "done"


def test_a_person_without_the_role_is_shown_no_doubts(browser, desk):
    desk.decide(desk.ask(["bank.send", {"answer": "doubt"}]))
    with page_of(browser, desk, "bob") as page:
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        expect(page.locator("#doubts")).to_be_hidden()


def test_a_typed_reason_outlives_new_requests(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "bob") as page:
        reason = page.locator(".plan").first.get_by_label("Reason")
        reason.fill("not now")
        desk.ask(["desk.pay", {"to": "yan", "euro": 50}])
        expect(page.locator(".plan")).to_have_count(2)
        expect(reason).to_have_value("not now")
        expect(reason).to_be_focused()
        page.get_by_role("button", name=re.compile("^Deny")).first.click()
        expect(page.get_by_role("status").filter(has_text="denied")).to_have_text(
            "denied by bob: not now"
        )


def test_an_amendment_shows_its_faults_and_then_what_ran(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "bob") as page:
        amend = page.get_by_role("button", name="Amend: desk.pay")
        amend.click()
        arguments = page.get_by_label("Arguments of desk.pay")
        expect(arguments).to_be_focused()
        others = [
            page.get_by_role("button", name=f"{one}: desk.pay") for one in ("Approve", "Deny")
        ]
        for other in (*others, amend):  # of the request as it is, which is not what is edited
            expect(other).to_be_hidden()
        arguments.fill('{"to": "zoe", "euro": 7}')
        look = page.get_by_role("button", name="Show what would run")
        with held_post(page):  # its answer comes after the cancellation
            look.click()
            page.get_by_role("button", name="Cancel").click()
        for other in (*others, amend):
            expect(other).to_be_visible()
        expect(amend).to_be_focused()
        amend.click()
        assert '"euro": 50' in arguments.input_value()
        send = page.get_by_role("button", name="Approve these instead")
        expect(send).to_be_disabled()
        look.click()
        expect(page.locator(".decide > .form-error")).to_contain_text("Change one")
        for text, fault in [
            ('{"to": "zoe", "euro": }', "This is no JSON object"),
            ("[1]", "This is no JSON object"),
            ('{"to": "zoe", "euro": 5,\n"euro": 400}', 'line 2: the key "euro" comes twice'),
            ('{"to": "zoe", "euro": NaN}', "a value is expected, not “NaN”"),
            ('{"to": "zoe", "euro": 900}', "less than or equal to 500, got 900"),
            ('{"to": "zoe", "euro": 200}', "a person approves it"),
        ]:
            arguments.fill(text)
            look.click()
            expect(page.locator(".amend .form-error")).to_contain_text(fault)
            expect(look).to_be_enabled()
            expect(send).to_be_disabled()
        arguments.fill('{"to": "zoe", "euro": 4}')
        look.click()
        shown = page.locator(".foreseen")
        expect(shown.locator(".tree > li")).to_have_text(['to "zoe"', "euro 4"])
        expect(shown.locator(".plan-changes")).to_have_text("desk.paid/zoe/euro 4")
        arguments.press_sequentially(" ")  # another text is not what was shown
        expect(send).to_be_disabled()
        expect(shown).to_be_hidden()
        look.click()
        send.click()
        expect(page.locator(".outcome.amended")).to_contain_text("amended by bob")
        expect(page.locator(".plan.approved")).to_contain_text("euro 4")
        expect(page.locator(".plan.approved .status")).to_have_text("done")


def test_hostile_text_stays_text_and_large_numbers_stay_exact(browser, desk):
    desk.ask(
        ["desk.pay", {"to": HOSTILE, "euro": 50}],
        ["bank.send", {"answer": "7", "big": 9_007_199_254_740_993}],
        about={"goal": f"{HOSTILE}{'x' * 4_000}", HOSTILE: "y" * 4_000},
    )
    with page_of(browser, desk, "bob") as page:
        expect(page.locator(".plan h3")).to_contain_text("<img src=x onerror=alert(1)>\\u202egnp")
        expect(page.locator(".plan")).to_contain_text("9007199254740993")
        assert page.locator("img").count() == 0
        assert "\u202e" not in page.locator("body").inner_text()
        page.get_by_role("button", name=re.compile("^Amend")).click()
        areas = page.locator("textarea")
        assert "\\u202e" in areas.nth(0).input_value()
        assert "9007199254740993" in areas.nth(1).input_value()


def test_an_approval_waits_until_all_of_the_request_is_shown(browser, desk):
    many = {f"k{number}": number for number in range(30)}
    key = f"{'k' * 100}ey"
    desk.ask(
        ["bank.send", {"answer": "7", "text": LONG, key: 1, "many": many}],
        about={"asks": ["send: euro > 40"], "note": {str(n): n for n in range(250)}},
    )
    with page_of(browser, desk, "bob") as page:
        card = page.locator(".plan")
        approve = page.get_by_role("button", name="Approve: bank.send")
        expect(card).to_contain_text("Why a person is asked")
        expect(card).to_contain_text("send: euro > 40")
        expect(card).to_contain_text(key)
        expect(approve).to_be_disabled()
        expect(card).not_to_contain_text("THE END")
        page.get_by_role("button", name="show the other 28\u202f007 characters").click()
        expect(card).to_contain_text("THE END")
        expect(approve).to_be_disabled()
        card.get_by_text("30 fields").click()
        expect(card).to_contain_text("k29 29")
        expect(card).to_contain_text("A part is not shown")
        page.get_by_role("button", name="show everything").click()
        expect(card).to_contain_text("249 249")
        approve.click()
        expect(card.get_by_role("status")).to_have_text("approved by bob")


def test_every_change_is_shown_or_waits_to_be_opened(browser, desk):
    desk.ask(*[["desk.pay", {"to": f"to{number}", "euro": 5}] for number in range(60)])
    with page_of(browser, desk, "bob") as page:
        approve = page.get_by_role("button", name=re.compile("^Approve"))
        expect(approve).to_be_disabled()
        page.get_by_role("button", name="show the other 10").click()
        expect(page.locator(".plan-changes li")).to_have_count(60)
        expect(approve).to_be_enabled()


def test_a_decided_card_stays_in_its_place_with_its_outcome(browser, desk):
    asked = [desk.ask(["desk.pay", {"to": name, "euro": 50}]) for name in ("a", "b", "c")]
    with page_of(browser, desk, "bob") as page:
        cards = page.locator(".plan")
        expect(cards).to_have_count(3)
        cards.nth(1).get_by_role("button", name=re.compile("^Deny")).click()
        outcome = cards.nth(1).get_by_role("status")
        expect(outcome).to_have_text("denied by bob")
        expect(outcome).to_be_in_viewport()
        last = desk.ask(["desk.pay", {"to": "d", "euro": 50}])
        expect(cards).to_have_count(4)
        ids = cards.evaluate_all("cards => cards.map(card => card.dataset.id)")
        assert ids == [*asked, last]


def test_the_name_of_a_call_is_said_once_and_its_defaults_are_marked(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "bob") as page:
        card = page.locator(".plan")
        expect(card.locator("h3")).to_have_text("desk.pay")
        expect(card.locator(".tree > li")).to_have_text(['to "zoe"', "euro 50"])
        assert card.inner_text().count("desk.pay") == 1


def test_the_header_has_one_row_on_a_wide_screen(browser, desk):
    with page_of(browser, desk, "ann") as page:
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        page.set_viewport_size({"width": 1280, "height": 900})
        header = page.locator("header").bounding_box()
        leave = page.get_by_role("button", name="Sign out").bounding_box()
        assert header is not None
        assert leave is not None
        assert header["height"] < 2 * leave["height"]
        assert leave["x"] + leave["width"] == pytest.approx(header["x"] + header["width"], abs=2)
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # a literal


def test_the_second_of_two_persons_reads_the_decision_of_the_first(browser, desk):
    request = desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "bob") as page:
        button = page.get_by_role("button", name="Approve: desk.pay")
        expect(button).to_be_visible()
        with page.expect_response("**/approvals/*"):  # the decision of ann is before that of bob
            assert desk.decide(request, "deny", "ann", reason="no").status_code == 200
            button.click()
        expect(page.get_by_role("status").filter(has_text="denied")).to_have_text(
            "denied by ann: no"
        )


def test_a_person_without_the_role_sees_nothing_to_decide(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 200}], role="manager")
    with page_of(browser, desk, "bob") as page:
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
    with page_of(browser, desk, "operator") as page:
        expect(page.locator(".plan")).to_contain_text("needs the role manager")
        expect(page.locator(".plan")).to_contain_text("ann may decide")
        expect(page.locator(".plan")).to_contain_text("This token may not decide")


def test_a_person_finds_again_what_she_decided(browser, desk):
    first = desk.ask(["bank.send", {"answer": "7"}])
    second = desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    desk.decide(first, "approve", "ann", reason="agreed")
    desk.decide(second, "deny", "ann", reason="too much")
    with page_of(browser, desk, "ann") as page:
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        page.get_by_text("Decided before").click()
        cards = page.locator("#decided .plan")
        expect(cards).to_have_count(2)
        expect(cards.nth(0)).to_contain_text("denied by ann: too much")
        expect(cards.nth(1)).to_contain_text("approved by ann: agreed")
        expect(cards.nth(1).locator(".status")).to_contain_text("done")
        page.get_by_role("link", name="Dashboard").click()
        expect(page.locator("#limits")).to_contain_text("those that were decided are on the page")


def test_the_dashboard_has_the_same_requests_and_one_navigation(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "operator", "") as page:
        expect(page.locator("#plans")).to_have_text("1 request waits for your decision")
        pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(pages).to_have_text(["Dashboard", "Approvals", "Player", "API"])
        page.get_by_role("button", name="Deny: desk.pay").click()
        expect(page.locator(".outcome.denied")).to_contain_text("denied by operator")
        page.get_by_role("link", name="Approvals", exact=True).click()
        expect(page.get_by_role("heading", name="Requests for approval")).to_be_visible()
        expect(page.locator(".outcome.denied")).to_contain_text("denied by operator")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_player_of_a_served_world_decides_too(browser, desk):
    desk.ask(["desk.pay", {"to": "zoe", "euro": 50}])
    with page_of(browser, desk, "operator", "play") as page:
        panel = page.get_by_role("region", name="Requests for approval")
        panel.get_by_role("button", name="Approve: desk.pay").click()
        expect(panel.locator(".outcome.approved")).to_be_visible()
        lines = page.locator("#feed button")
        lines.filter(has_text="waits for a person").first.click()
        expect(page.get_by_role("button", name="Why", exact=True)).to_be_visible()
        story = page.get_by_role("button", name="Story of this request")
        expect(story).to_have_count(0)  # of the program that asks
        page.locator("#to-end").click()
        lines.filter(has_text="approved request").first.click()
        story.click()
        expect(page.locator("#inspect h3")).to_contain_text("of alice")


VALUES: tuple[Json, ...] = (
    *(
        None,
        "null",
        "",
        "(empty)",
        "nothing",
        True,
        "true",
        False,
        0,
        "0",
        -0.0,
        1,
        "1",
        1.0,
        "1.0",
    ),
    *(2**53, 2**53 + 1, str(2**53), 1e300, [], "[]", {}, "{}", [None], ["null"], [1], ["1"], [[]]),
    *(
        [1, "2"],
        ["1", 2],
        ["1,2"],
        ["1", "2"],
        [{}],
        {"0": 1},
        {"a": 1},
        {"a": "1"},
        {"a": {"b": 1}},
    ),
    *({"a": {}, "b": 1}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}, "c": 2}, {"": ""}, {" ": ""}),
    *({"constructor": 1}, {"__proto__": 1}, {"toString": ""}, {"a 1": 2}, {"a": "1\nb 2"}),
    *({"a": 1, "b": 2}, list(range(9)), {str(k): k for k in range(9)}, "1 item", "a ", "a", " a"),
    *("a\u202eb", "a\\u202eb", "ab", "a\u200bb", "a\nb", "a\\nb", "a b", "a  b", "a\xa0b", "a\tb"),
    *("\xe9", "e\u0301", "\u0430", '"a"', "'a'", "a\ufffdb", "a\0b", "<b>", "&lt;b>"),
)
"""Values of which each is shown in another way than all others."""


def test_different_values_never_look_alike(browser, desk):
    desk.ask(*[["bank.send", {"answer": "7", "value": value}] for value in VALUES])
    with page_of(browser, desk, "bob") as page:
        trees = page.locator(".plan-actions > li > .tree")
        expect(trees).to_have_count(len(VALUES))
        shown = trees.evaluate_all("all => all.map(one => one.innerText)")
        assert len(set(shown)) == len(VALUES)
        whole = "\n".join(shown)
        for junk in (
            "native code",
            "[object",
            "undefined",
            "NaN",
            "\u202e",
            "\u200b",
            "\ufffd\ufffd",
        ):
            assert junk not in whole
        assert 'value "a\\u202eb"' in whole
        title = page.locator(".escape", has_text="202e").first.get_attribute("title")
        assert title == "U+202E right-to-left override"
        expect(page.locator(".remark")).to_contain_text(
            ["not in Unicode NFC", "Cyrillic letters that look like Latin ones"]
        )
