"""The past of a gate in the terminal: what an agent did, why not, who decided, and how it ended."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from tests.tools.shop_log import make_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("past")
    make_log(made / "shop.db")
    return made


@pytest.fixture
def look(placet, folder):
    """The command line in a folder with a copy of the log."""
    shutil.copytree(folder, placet.folder, dirs_exist_ok=True)
    return placet


def log_of(look, *options):
    return look("log", "shop.db", "--json", *options).json()


def told(event):
    """Return the type of a record, and the first kind of a batch."""
    return event["type"], event["intents"][0]["kind"] if "intents" in event else ""


def test_the_refusals_of_an_agent_are_those_of_its_batches_and_the_noted_ones(look):
    refused = log_of(look, "--agent", "support", "--refused")
    assert [told(one) for one in refused] == [
        ("refused", "shop.refund"),
        ("batch", "shop.refuse_calls"),
    ]
    (of_sales,) = log_of(look, "--agent", "sales", "--refused")
    assert of_sales["intents"][0]["payload"]["agent"] == "sales"
    by_kind = log_of(look, "--agent", "support", "--kind", "shop.refund", "--refused")
    assert by_kind == refused


def test_the_records_of_an_agent_have_its_outcomes_and_the_decisions(look):
    events = log_of(look, "--agent", "support")
    assert [told(one)[0] for one in events].count("settled") == 3
    kinds = [told(one)[1] for one in events]
    assert kinds.count("approvals.ask") == 2
    assert kinds.count("approvals.decide") == 1
    assert not [one for one in log_of(look, "--agent", "sales") if one["type"] == "settled"]
    late = next(one for one in events if one["type"] == "settled")
    again = log_of(look, "--agent", "support", "--from", str(late["seq"]))
    assert again[0] == late  # its effect is before the first seq


def test_the_name_of_a_domain_selects_its_kinds(look):
    kinds = {told(one)[1] for one in log_of(look, "--kind", "approvals")}
    assert kinds == {"approvals.ask", "approvals.decide"}
    missing = look("log", "shop.db", "--kind", "aprovals")
    assert "did you mean 'approvals'?" in missing.err


def test_records_are_selected_by_date_and_have_it(look):
    events = log_of(look)
    dated = [one for one in events if "wall_time" in one]
    assert len(dated) == len(events) - 4  # before the gate has noted its time
    now = datetime.now(UTC)
    tomorrow, hour_ago = f"{now + timedelta(days=1):%Y-%m-%d}", f"{now - timedelta(hours=1):%FT%T}"
    assert log_of(look, "--since", tomorrow) == []
    assert log_of(look, "--until", tomorrow) == events
    assert log_of(look, "--since", hour_ago)[-1] == events[-1]
    middle = dated[7]["wall_time"]
    assert log_of(look, "--since", middle)[0]["wall_time"] <= middle
    first = log_of(look, "--since", middle)[0]["record"]
    before = log_of(look, "--until", middle)
    assert before[-1]["record"] < first
    line = look("log", "shop.db").out.splitlines()[-1]
    assert dated[-1]["wall_time"][:19].replace("T", " ") in line


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_text_that_is_no_time_is_refused_with_an_example(look, option):
    outcome = look("log", "shop.db", option, "gestern")
    assert outcome.code == 2
    assert "such as 2026-11-27 or 2026-11-27T14:30, got 'gestern'" in outcome.err


def test_a_log_without_wall_times_says_so(town):
    outcome = town("log", "town.db", "--since", "2026-11-27")
    assert outcome.code == 1
    assert "no wall times" in outcome.err


def test_an_explanation_says_how_a_call_ended_and_who_decided(look):
    done = look("explain", "shop.db", "support", "large").out
    assert "  done at 20" in done
    assert '{"order":"B2","paid":150}' in done
    assert "Earlier it was held for a person: shop.approval_required" in done
    assert "because refund (risk medium): euro > 100" in done
    assert "'ann' decided 'approve'" in done
    failed = look("explain", "shop.db", "support", "none").out
    assert "  failed at 20" in failed
    assert "NotDone: there is no such order" in failed
    (effect,) = look("explain", "shop.db", "support", "large", "--json").json()["effects"]
    assert effect["outcome"]["status"] == "done"
    assert effect["outcome"]["wall_time"] is not None


def test_a_misspelled_key_or_agent_is_answered_with_the_nearest_one(look):
    key = look("explain", "shop.db", "support", "larg")
    assert key.code == 1
    assert "did you mean 'large'" in key.out
    assert len(key.out.splitlines()) < 8
    agent = look("explain", "shop.db", "suport", "large").out
    assert "did you mean 'support'?" in agent
    assert len(agent.splitlines()) < 8
