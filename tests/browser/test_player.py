"""The player in a real browser, on a finished run: start, scrub, click, fork, accessibility."""

import hashlib
import re
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import expect

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from tests.browser.conftest import Played, looking, playing

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 844}
TICKS = 20

CONTRAST = """(selectors) => {
  const parts = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length === 3) return color;
    }
    return [255, 255, 255];
  };
  const some = (selector) => [...document.querySelectorAll(selector)].slice(0, 3);
  return selectors.flatMap((selector) => some(selector).map((element) => {
    const [one, other] = [light(parts(getComputedStyle(element).color)), light(ground(element))];
    return [selector, (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)];
  }));
}"""
TEXTS = [
    "h2",
    "dt",
    "dd",
    "#feed .who",
    "#feed .seq",
    "#feed .detail",
    "#play",
    "#state td",
    "#state th",
    "#state button",
    ".small",
]


def test_the_first_moment_is_shown_and_the_token_leaves_the_address(browser, played_town):
    with looking(browser, played_town.page) as looked:
        assert looked.fact("tick") == f"0 of {TICKS}"
        assert looked.fact("agents") == "30"
        assert looked.page.title() == "town · placet player"
        assert "token" not in looked.page.url
        assert looked.page.locator("#map-says").inner_text().startswith("world.agents 30")
        page = looked.page.request.get(played_town.url)
        assert "require-trusted-types-for 'script'" in page.headers["content-security-policy"]


def test_scrubbing_stepping_and_jumping_show_other_moments(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        slider = page.get_by_role("slider", name="Position in the run")
        slider.fill("300")
        looked.wait_fact("seq", "300")
        assert "seq 300" in (slider.get_attribute("aria-valuetext") or "")
        before = page.locator("#state tbody").inner_text()
        page.get_by_label("Jump to a").select_option("tick")
        page.get_by_label("Number to jump to").fill("12")
        page.get_by_role("button", name="Go", exact=True).click()
        looked.wait_fact("tick", f"12 of {TICKS}")
        assert page.locator("#state tbody").inner_text() != before
        page.locator("h1").click()  # keys go to the page, not to a field
        looked.press("ArrowRight")
        looked.wait_fact("tick", f"13 of {TICKS}")
        looked.press("Shift+ArrowLeft")
        looked.wait_fact("tick", f"3 of {TICKS}")
        page.get_by_label("Step by").select_option("record")
        page.locator("h1").click()
        record = int(looked.fact("record").partition(",")[0])
        looked.press("ArrowLeft")
        looked.wait_fact("record", str(record - 1))
        looked.press("End")
        page.wait_for_selector("#standing:text('at the end')")
        looked.press("Home")
        looked.wait_fact("tick", f"0 of {TICKS}")


def test_playing_moves_on_by_itself_until_it_is_paused(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_label("Speed").select_option("15")
        page.locator("h1").click()
        looked.press(" ")
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        looked.wait_fact("tick", f"{TICKS} of {TICKS}")
        page.wait_for_selector("#standing:text('at the end')")
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_an_agent_opens_its_state_its_view_and_its_intents(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_role("button", name="folk_1", exact=True).first.click()
        expect(page.locator("#h-inspect")).to_have_text("folk_1")
        expect(
            page.locator("#inspect .tree .key").filter(has_text="position").first
        ).to_be_visible()
        page.get_by_role("button", name="What it saw").click()
        expect(page.locator("#inspect h3")).to_contain_text("What folk_1 could see at seq")
        page.get_by_role("button", name=re.compile("^intent")).click()
        expect(page.locator("#feed li").first).to_contain_text("folk_1")


def test_a_refusal_leads_to_the_stage_that_refused_it(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_role("button", name="Next refusal").click()
        expect(page.locator("#inspect p.refusal").first).to_be_visible()
        page.get_by_role("button", name="Why", exact=True).click()
        expect(page.locator("#inspect .stages > li")).to_have_count(7)
        expect(page.locator("#inspect .stages > li.refused")).to_have_count(1)


@pytest.fixture(scope="module")
def played_lamp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """A run in which a condition of an intent does not hold."""
    store = f"sqlite:///{tmp_path_factory.mktemp('lamp') / 'lamp.db'}"

    async def run() -> None:
        world = World(objects={"lamp": {"position": [0, 0]}})
        async with Orchestrator([world], OrchestratorConfig(store=store)) as orchestrator:
            ann, bob = [
                await orchestrator.register_agent(name, position=[0, 0]) for name in ("ann", "bob")
            ]
            for agent in (ann, bob):
                await agent.refresh_view()
            takes = [
                agent.intent(
                    "Interact",
                    {"target_id": "lamp", "interaction_type": "pickup"},
                    if_unchanged=["world.objects/lamp/holder"],
                )
                for agent in (ann, bob)
            ]
            assert (await ann.submit([takes[0]])).admitted
            assert not (await bob.submit([takes[1]])).admitted

    with start_blocking_portal() as portal:  # the browser's event loop is of this thread
        portal.call(run)
    with playing(store) as played:
        yield played


def test_the_conditions_of_an_intent_are_shown_with_the_values_found(browser, played_lamp):
    expects = "expects world.objects/lamp/holder == null"
    with looking(browser, played_lamp.page) as looked:
        page = looked.page
        page.get_by_role("button", name="Next refusal").click()
        expect(page.locator("#inspect .intent .expects")).to_have_text(expects)
        page.get_by_role("button", name="Why", exact=True).click()
        refused = page.locator("#inspect .stages > li.refused p.refusal")
        expect(refused.filter(has_text="expects").last).to_have_text(f"{expects}: found ann")


def test_the_map_is_clicked(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        box = page.locator("#map").bounding_box()
        assert box is not None
        for across in range(4, 16):
            for down in range(4, 16):
                page.mouse.move(
                    box["x"] + box["width"] * across / 20, box["y"] + box["height"] * down / 20
                )
                if page.locator("#map").evaluate("(map) => map.style.cursor") == "pointer":
                    page.mouse.down()
                    page.mouse.up()
                    expect(
                        page.locator("#inspect .tree .key").filter(has_text="position").first
                    ).to_be_visible()
                    return
        pytest.fail("nothing on the map is under the pointer")


def test_the_numbers_of_an_entity_are_plotted_over_time(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_role("button", name="folk_1", exact=True).first.click()
        page.get_by_role("button", name="Over time").click()
        plot = page.locator("#inspect .answer canvas").first
        label = re.compile(r"^position: \[0\] [-\d.]+, \[1\] [-\d.]+, \[2\] 0 at this moment;")
        looked.press("End")
        looked.wait_fact("tick", f"{TICKS} of {TICKS}")
        expect(plot).to_have_attribute("aria-label", label)
        before = plot.get_attribute("aria-label")
        page.keyboard.press("Home")  # the plot stays, with the values of the other moment
        looked.wait_fact("tick", f"0 of {TICKS}")
        expect(plot).not_to_have_attribute("aria-label", before or "")


def test_a_fork_with_an_edit_is_played_beside_its_parent(browser, played_town, town):
    before = hashlib.sha256(town.read_bytes()).hexdigest()
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_role("button", name="folk_2", exact=True).first.click()
        page.get_by_role("button", name="Fork from here").click()
        expect(page.get_by_label("Set", exact=True)).to_have_value("world.agents/folk_2/position")
        page.get_by_label("to (JSON)").fill("not JSON")
        page.get_by_role("button", name="Fork", exact=True).click()
        expect(page.get_by_role("status").filter(has_text="not JSON")).to_be_visible()
        page.get_by_label("to (JSON)").fill("[1, 2, 0]")
        page.get_by_role("button", name="Fork", exact=True).click()
        expect(page.locator("#inspect .outcome")).to_contain_text("batches decided again")
        expect(page.locator("#inspect .command")).to_contain_text("placet fork")
        page.get_by_role("button", name="Play the fork").click()
        expect(page.get_by_label("World", exact=True)).to_have_value(re.compile("town-fork-"))
        page.get_by_label("Show entities whose id contains").fill("folk_2")
        row = page.locator("#state tbody tr").filter(
            has=page.get_by_role("button", name="folk_2", exact=True)
        )
        expect(row).to_contain_text(re.compile(r"1(\.0)?, 2(\.0)?, 0"))
    assert hashlib.sha256(town.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, {"width": 1280, "height": 900}], ids=["phone", "desk"])
def test_the_page_fits_the_screen_and_has_contrast(browser, played_town, scheme, viewport):
    with looking(browser, played_town.page, viewport=viewport, color_scheme=scheme) as looked:
        page = looked.page
        page.get_by_role("button", name="Next refusal").click()
        page.get_by_role("button", name="Why", exact=True).click()
        expect(page.locator("#inspect .stages > li")).to_have_count(7)
        wide, there = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there
        low = [(name, ratio) for name, ratio in page.evaluate(CONTRAST, TEXTS) if ratio < 4.5]
        assert low == []
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(18, 20, 18)") == (scheme == "dark")


def test_everything_can_be_done_by_keys_alone(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        looked.press("r")
        expect(page.locator("#h-inspect")).not_to_have_text("Details")
        assert page.evaluate("document.activeElement.id") == "h-inspect"
        looked.press("Tab")  # the button that closes
        looked.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Why"
        looked.press("Enter")
        expect(page.locator("#inspect .stages > li")).to_have_count(7)
        page.get_by_role("slider").focus()
        at = looked.fact("seq")
        looked.press("ArrowRight")
        looked.wait_fact("seq", str(int(at) + 1))


def test_everything_has_a_name_for_a_screen_reader(browser, played_town):
    with looking(browser, played_town.page) as looked:
        page = looked.page
        page.get_by_role("button", name="folk_1", exact=True).first.click()
        page.get_by_role("button", name="Fork from here").click()
        said = page.locator("body").aria_snapshot()
        for role in (
            "button",
            "slider",
            "combobox",
            "textbox",
            "searchbox",
            "checkbox",
            "region",
            "img",
            "table",
            "group",
        ):
            nameless = re.findall(rf"^\s*- {role}(?: \[[^\]]*\])*:?$", said, re.MULTILINE)
            assert nameless == [], role
        for expected in (
            'slider "Position in the run"',
            'button "Play"',
            'region "State"',
            'table "Entities and their fields at this moment"',
            'img "Map ',
        ):
            assert expected in said
        assert "heading" in said


def test_without_a_token_nothing_is_shown(browser, played_town):
    context = browser.new_context()
    page = context.new_page()
    page.goto(played_town.url)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#content")).to_be_hidden()
    page.get_by_label("Token").fill("placet_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="does not know this token")).to_be_visible()
    page.get_by_label("Token").fill(played_town.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#content")).to_be_visible()
    context.close()
