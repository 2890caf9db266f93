"""Policies of the tests of workers; a worker imports this module."""

import os
import signal
import threading
import time
from pathlib import Path

from placet.domains.world import World


class Walker:
    """Walks by what it sees; its options say at which tick it fails, and how.

    Options:
        fails: How: `raises`, `dies`, `hangs`, `lambda` (an intent that cannot be pickled).
        agent: Which agent fails; all others walk.
        tick: At which tick, from 0.
        once: A file; the policy fails only while there is none, and makes it.
    """

    def __init__(self, member, scenario, intent):
        self.name, self.intent = member.agent_id, intent
        self.options = scenario.agents[member.cohort].options

    def propose(self, view):
        if view.agent_id == self.options.get("agent") and self.is_due(view.sim_time):
            return fail(self.options["fails"])
        me = view.state["world.agents"][self.name]["position"]
        crowd = len(view.near(me, 12.0))
        aside = view.randint_below(3, "aside") - 1
        return [self.intent("Move", to=[me[0] + 1 - crowd % 3, me[1] + aside])] if crowd else []

    def is_due(self, sim_time):
        once = self.options.get("once")
        if sim_time != self.options.get("tick", 0) or (once and Path(once).exists()):
            return False
        if once:
            Path(once).touch()
        return True


def fail(how):
    if how == "raises":
        raise ValueError("this policy raises")
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hangs":
        threading.Event().wait(600)
    return [{"kind": "Move", "payload": {"to": lambda: None}}]


class Unmade:
    """A policy that cannot be made."""

    def __init__(self, member, scenario, intent):
        raise ValueError(f"no policy for {member.agent_id}")


def walk(view, intent):
    """Walk, with a piece of the view in the payload."""
    me = view.state["world.agents"][view.agent_id]
    return [intent("Move", to=me["position"])]


def quote(view, intent):
    """Return a payload in which a read-only mapping of the view stands."""
    return [intent("Speak", text=view.state["world.agents"][view.agent_id])]


def slow(view):
    """Take 50 ms, so that a kill finds the worker in the middle of its thinking."""
    time.sleep(0.05)
    return [
        {
            "kind": "Move",
            "payload": {"to": [*view.state["world.agents"][view.agent_id]["position"]]},
        }
    ]


class Park(World):
    """A domain of arguments that its settings do not return."""

    name = "park"

    def __init__(self, size):
        super().__init__(bounds=[[0, 0], [size, size]])

    def settings(self):
        return None


class Flockers:
    """A policy of a whole cohort; `calls` counts its calls in this process."""

    calls = 0

    def __init__(self, scenario, cohort):
        self.options = scenario.agents[cohort].options

    def propose_all(self, views):
        type(self).calls += 1
        if views[0].sim_time == self.options.get("raises"):
            raise ValueError("the model raises")
        if views[0].sim_time == self.options.get("drops"):
            return [[] for _ in views[1:]]
        return [self.one(view) for view in views]

    def one(self, view):
        x, y, _ = view.state["world.agents"][view.agent_id]["position"]
        to = [x + len(view.agent_id) % 3, y + 1]
        return [{"kind": "Move", "payload": {"to": to}}] if view.agent_id != "walker_2" else []


class Misshapen:
    """A policy of a cohort that is made like that of one agent."""

    def __init__(self, member, scenario, intent):
        pass

    def propose_all(self, views):
        return []


def forever(view, intent):
    """Wait until the process ends."""
    threading.Event().wait()


def printing(view, intent):
    """Print a line, and propose nothing."""
    print("a policy prints")  # noqa: T201  # as a policy may
    return []
