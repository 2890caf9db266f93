"""A paid effect whose on_settle raised: kept through kill -9, listed, counted, settled again."""

import shutil
import signal
import subprocess
import sys

import pytest

from placet.history.reader import fold
from placet.stores.url import open_event_log

SHOP = """
import asyncio, os, signal, sys
from pathlib import Path
from typing_extensions import TypedDict

from placet import Orchestrator, OrchestratorConfig
from placet.kernel import Domain, Kind

class Order(TypedDict):
    article: str

def order(draft, intent):
    draft.create("shop.orders", str(draft.seq), {"article": intent["payload"]["article"]})
    draft.emit("pay", {"article": intent["payload"]["article"]})

class Shop(Domain):
    name, version, kinds = "shop", "1", [Kind("Order", Order, order, effects=("pay",))]
    def settings(self):
        return {}
    def on_settle(self, draft, effect, settlement):
        raise KeyError("receipt")

class Mended(Shop):
    version = "2"
    def on_settle(self, draft, effect, settlement):
        if effect.payload["article"] == "vase":
            raise ValueError("no vase")
        draft.put("shop.orders", str(effect.key.seq), "paid", settlement.output)

class KeptVersion(Mended):
    version = "1"

async def pay(effect):
    with Path("paid.txt").open("a") as file:
        file.write(f"{effect.key}\\n")
    return {"receipt": effect.payload["article"]}

async def live(articles):
    config = OrchestratorConfig(store="sqlite:///shop.db", world="shop", log_level="critical")
    async with Orchestrator(Shop(), config) as shop:
        ann = await shop.register_agent("ann")
        await shop.register_executor("pay", pay)
        for number, article in enumerate(articles):
            intent = {**ann.intent("Order", article=article), "req_id": f"order-{number}"}
            verdict = await ann.submit([intent])
            assert verdict.admitted, verdict
        await shop.wait_effects()
        dead = await shop.effects("dead")
        counted = shop.statistics()["effects"]
        print([str(one.key) for one in dead], counted["by_kind"].get("pay"), counted["unresolved"])
        print(dead[0].outcome, dead[0].why)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(live(sys.argv[1:]))
"""


def run_shop(folder, *articles):
    return subprocess.run(
        [sys.executable, "shop.py", *articles], cwd=folder, capture_output=True, check=False
    )


@pytest.fixture
def shop(placet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    done = run_shop(tmp_path, "chair", "vase")
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return placet, tmp_path, done.stdout.decode()


def test_a_refused_outcome_survives_a_kill_and_is_listed_counted_and_not_run_again(shop):
    placet, folder, out = shop
    first, second = out.splitlines()
    assert "'dead_letters': 2" in first
    assert first.endswith(" 2")
    assert second == "{'succeeded': True, 'output': {'receipt': 'chair'}} KeyError: 'receipt'"
    paid = (folder / "paid.txt").read_text("utf-8").splitlines()
    listed = placet("effects", "shop.db", "--json").json()
    assert [one["key"] for one in listed] == paid
    assert [one["state"] for one in listed] == ["dead", "dead"]
    assert listed[0]["outcome"] == {"succeeded": True, "output": {"receipt": "chair"}}
    assert "KeyError: 'receipt'" in placet("effects", "shop.db", "--state", "dead").out
    assert "on_settle raised KeyError: 'receipt'" in placet("log", "shop.db").out
    again = run_shop(folder, "chair", "vase")  # resumed by the same broken program
    assert again.returncode == -signal.SIGKILL
    assert (folder / "paid.txt").read_text("utf-8").splitlines() == paid
    assert placet("verify", "shop.db", "--domain", "shop:Shop").code == 0


def test_dead_letters_are_settled_again_by_mended_rules(shop):
    placet, folder, _ = shop
    chair, vase = (folder / "paid.txt").read_text("utf-8").splitlines()
    before = open_event_log("shop.db").count()
    failed = placet("effects", "shop.db", "--settle-again", chair, "--domain", "shop:Shop")
    assert (
        failed.code,
        "is still a dead letter: on_settle of shop raised KeyError" in failed.out,
    ) == (
        1,
        True,
    )
    assert placet("effects", "shop.db", "--settle-again", "shop/99/0").code == 1
    assert placet("effects", "shop.db", "--settle-again", "chair").code == 2
    assert open_event_log("shop.db").count() == before
    mended = ("--domain", "shop:Mended")
    shutil.copy("shop.db", "kept.db")
    kept = placet("effects", "kept.db", "--settle-again", "all", "--domain", "shop:KeptVersion")
    assert "the same domain version (shop 1)" in kept.err
    done = placet("effects", "shop.db", "--settle-again", "all", *mended, "--json")
    assert (done.code, done.err) == (1, "")  # one of the two
    assert done.json() == [
        {"key": chair, "error": None},
        {"key": vase, "error": "on_settle of shop raised ValueError: no vase"},
    ]
    past = fold(open_event_log("shop.db"))
    paid = past.state.get("shop.orders", chair.split("/")[1], "paid")
    assert paid == {"receipt": "chair"}
    assert [one["key"] for one in placet("effects", "shop.db", "--json").json()] == [vase]
    by_hand = placet("effects", "shop.db", "--resolve", vase, "failed", *mended)
    assert (by_hand.code, "nothing was written" in by_hand.err) == (1, True)
    assert placet("verify", "shop.db", *mended).code == 0
    assert (folder / "paid.txt").read_text("utf-8").splitlines() == [chair, vase]
