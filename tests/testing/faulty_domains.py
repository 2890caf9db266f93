"""Small domains with one fault each, one for every property."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from pydantic import PositiveInt
from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Kind, RuleRefusal, refuse
from placet.kernel.plugin.domain import Rule
from placet.kernel.state.collection import Entity
from placet.kernel.state.tree import State
from placet.kernel.visibility.relations import HideFields, SameTeam
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

PURSES = "odd.purses"
FULL = 5


class Coins(TypedDict):
    coins: PositiveInt


class Gift(TypedDict):
    to: str


class Named(TypedDict):
    names: list[str]


def put_in(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Put coins into the agent's purse, up to a maximum: the correct rule."""
    agent_id, coins = intent["agent_id"], intent["payload"]["coins"]
    held = draft.get(PURSES, agent_id, "coins", 0)
    if held + coins > FULL:
        return refuse("full", f"a purse holds {FULL}", at="/coins")
    draft.put(PURSES, agent_id, "coins", held + coins)
    return None


def give(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Put one coin into another agent's purse."""
    to = intent["payload"]["to"]
    held = draft.get(PURSES, to, "coins")
    if held is None or held == FULL:
        return refuse("no_room", f"{to} takes no coin", at="/to")
    draft.put(PURSES, to, "coins", held + 1)
    return None


def reads_other(intent: Intent) -> Iterable[Ref]:
    return [Ref(PURSES, intent["payload"]["to"])]


class Purses(Domain):
    """A correct domain; each subclass violates one property."""

    name, version = "odd", "1"
    rule: Rule = staticmethod(put_in)

    def __init__(self) -> None:
        self.kinds: Sequence[Kind] = [
            Kind("Put", Coins, type(self).rule, reads_self=PURSES),
            Kind("Give", Gift, give, reads=reads_other),
        ]

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        draft.create(PURSES, agent_id, {"coins": 0, "number": draft.state.count(PURSES)})
        return None

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        draft.delete(PURSES, agent_id)


def unwary(draft: Draft, intent: Intent) -> None:
    draft.put(PURSES, intent["agent_id"], "share", 4 // (3 - intent["payload"]["coins"]))


class Unwary(Purses):
    """A rule that divides by a value that may be zero."""

    rule = staticmethod(unwary)


class Clumsy(Purses):
    """Raises where an agent is registered."""

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        draft.create(PURSES, agent_id, {"coins": attributes["coins"]})
        return None


def write_past(draft: Draft, intent: Intent, field: str) -> None:
    fields = draft.state.collections[PURSES].entities[intent["agent_id"]].fields
    fields[field] = intent["payload"]["coins"]


def leaky(draft: Draft, intent: Intent) -> RuleRefusal | None:
    refused = put_in(draft, intent)
    if refused is not None:
        write_past(draft, intent, "refused")
    return refused


class Leaky(Purses):
    """Records refusals in the state, bypassing the draft."""

    rule = staticmethod(leaky)


def secretive(draft: Draft, intent: Intent) -> RuleRefusal | None:
    refused = put_in(draft, intent)
    if refused is None:
        write_past(draft, intent, "secret")
    return refused


class Secretive(Purses):
    """Records admitted intents in the state, bypassing the draft."""

    rule = staticmethod(secretive)


def smuggle(draft: Draft, intent: Intent) -> None:
    draft.state.collection("odd.hidden").entities.setdefault("box", Entity({}))
    draft.put("odd.hidden", "box", "coins", intent["payload"]["coins"])


class Smuggler(Purses):
    """Creates an entity bypassing the draft, and then writes to it."""

    rule = staticmethod(smuggle)


def backdate(draft: Draft, intent: Intent) -> RuleRefusal | None:
    for agent_id in draft.ids(PURSES):
        draft.state.collections[PURSES].entities[agent_id].seq = 1
    return put_in(draft, intent)


class Backdater(Purses):
    """Changes the stamps of an entity."""

    rule = staticmethod(backdate)


class Mindful(Purses):
    """Counts its calls in an attribute of the domain."""

    def __init__(self) -> None:
        self.kinds = [Kind("Put", Coins, self.counted)]
        self.asked = 0

    def counted(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        self.asked += 1
        return put_in(draft, intent) if self.asked % 2 else refuse("tired", "every second time")


class Remembering(Purses):
    """Counts the admitted puts in an attribute, and stores the count."""

    def __init__(self) -> None:
        self.kinds = [Kind("Put", Coins, self.counted)]
        self.puts = 0

    def counted(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        refusal = put_in(draft, intent)
        if refusal is None:
            self.puts += 1
            draft.put(PURSES, intent["agent_id"], "puts", self.puts)
        return refusal


NUMBERS = count()


def numbered(draft: Draft, intent: Intent) -> None:
    draft.put(PURSES, intent["agent_id"], "number", next(NUMBERS))


class Numbered(Purses):
    """Draws numbers from a global generator."""

    rule = staticmethod(numbered)


class Newborn(Purses):
    """Has another version at each construction."""

    def __init__(self) -> None:
        super().__init__()
        self.version = f"1.{next(NUMBERS)}"


def shuffled(draft: Draft, intent: Intent) -> None:
    draft.put(PURSES, intent["agent_id"], "names", list({*intent["payload"]["names"], "zoe"}))


class Shuffled(Purses):
    """Stores a set in its iteration order."""

    def __init__(self) -> None:
        self.kinds = [Kind("Name", Named, shuffled)]


def rounded(draft: Draft, intent: Intent) -> RuleRefusal | None:
    intent["payload"]["coins"] = 1 + intent["payload"]["coins"] // 2
    return put_in(draft, intent)


class Rounded(Purses):
    """A rule that rewrites its payload in place."""

    rule = staticmethod(rounded)


def hurried(draft: Draft, intent: Intent) -> RuleRefusal | None:
    intent["priority"] = 0
    return put_in(draft, intent)


class Hurried(Purses):
    """A rule that rewrites the priority of its intent."""

    rule = staticmethod(hurried)


def doubled(draft: Draft, intent: Intent) -> RuleRefusal | None:
    draft.normalize({"coins": 2 * intent["payload"]["coins"]})
    return put_in(draft, intent)


class Doubled(Purses):
    """A payload whose normalization is not idempotent."""

    rule = staticmethod(doubled)


class Taxed(Purses):
    """Takes with time, below what its invariant allows; the kernel asks that of batches alone."""

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        for agent_id in list(draft.ids(PURSES)):
            held = draft.get(PURSES, agent_id, "coins")
            draft.put(PURSES, agent_id, "coins", held - 1)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        for ref in changed:
            if state.get(ref.collection, ref.entity or "", "coins", 0) < 0:
                yield refuse("negative", f"{ref.entity} owes", at=f"/{ref.entity}")


def hoard(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Put coins into the agent's purse, without a maximum."""
    held = draft.get(PURSES, intent["agent_id"], "coins", 0)
    draft.put(PURSES, intent["agent_id"], "coins", held + intent["payload"]["coins"])
    return None


class Blind(Purses):
    """Its invariant bounds every purse, but `invariant_reads` names ann's only."""

    rule = staticmethod(hoard)
    invariant_reads = (Ref(PURSES, "ann"),)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        for ref in changed:
            if state.get(ref.collection, ref.entity or "", "coins", 0) > FULL:
                yield refuse("full", f"the purse of {ref.entity} bursts", at=f"/{ref.entity}")


def envious(draft: Draft, intent: Intent) -> RuleRefusal | None:
    held = [draft.get(PURSES, agent_id, "coins") for agent_id in draft.ids(PURSES)]
    if sum(held) + intent["payload"]["coins"] > FULL:
        return refuse("enough", "all together hold enough")
    return put_in(draft, intent)


class Envious(Purses):
    """Reads all purses, but declares one as read set."""

    rule = staticmethod(envious)


class Candid(Envious):
    """Says that its rule looks into all purses at its turn, which no property forbids."""

    def __init__(self) -> None:
        super().__init__()
        put, *others = self.kinds
        self.kinds = [replace(put, revalidates=lambda _: [Ref(PURSES)]), *others]


class Sly(Envious):
    """Says so of a collection that has nothing to do with it."""

    def __init__(self) -> None:
        super().__init__()
        put, *others = self.kinds
        self.kinds = [replace(put, revalidates=lambda _: [Ref("odd.hats")]), *others]


class Moody(Purses):
    """A visibility policy that shows a purse at its first call only."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[tuple[str, Ref]] = set()

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        is_new = (agent_id, ref) not in self.shown
        self.shown.add((agent_id, ref))
        return is_new


class Forgetful(Purses):
    """`settings()` omits a setting."""

    def __init__(self, *, size: int = 1, name_of_size: str = "small") -> None:
        self.size = size
        self.name_of_size = name_of_size
        self.kinds = [Kind("Put", Coins, self.put_in)]

    def settings(self) -> Mapping[str, Json]:
        return {"name_of_size": self.name_of_size}

    def put_in(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        if intent["payload"]["coins"] > self.size:
            return refuse("too_many", f"at most {self.size} at a time")
        return put_in(draft, intent)


class Vain(Forgetful):
    """Has other settings when created from its settings."""

    def settings(self) -> Mapping[str, Json]:
        return {"size": 1 + self.size}


class Branded(Forgetful):
    """Has a version that does not follow from its settings."""

    def __init__(self, *, size: int = 1, name_of_size: str = "small") -> None:
        super().__init__(size=size, name_of_size=name_of_size)
        self.version = f"1+{size}"


class Generous(Forgetful):
    """A domain with a setting that `settings()` omits."""

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        draft.create(PURSES, agent_id, {"gift": self.size})
        return None


class Renamed(Purses):
    """`settings()` has keys that its class does not accept."""

    def settings(self) -> Mapping[str, Json]:
        return {"size": 3}


def large_forgetful() -> Domain:
    return Forgetful(size=3)


def large_branded() -> Domain:
    return Branded(size=3)


def large_generous() -> Domain:
    return Generous(size=3)


class _Careless(SameTeam):
    """Visibility by the number of coins; it ignores changes of other agents' coins."""

    def __init__(self) -> None:
        super().__init__(PURSES, "coins")
        self.depends_on = frozenset()


class Overlooking(Purses):
    """Agents with equal amounts see each other."""

    sight = _Careless()


class Omitted(Purses):
    """Shows each agent its own purse only, and names another collection as the hidden one."""

    hides = frozenset({"odd.hats"})

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        return ref.entity == agent_id


class Unlisted(Purses):
    """Hides the coins of others by a policy that names no collection."""

    class _Coins(HideFields):
        hides: frozenset[str] | None = frozenset()

    sight = _Coins(["coins"], PURSES)


class Queued(Purses):
    """Draws a number for the place in which an agent comes, instead of for the agent."""

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        place = draft.state.count(PURSES)
        draft.create(PURSES, agent_id, {"coins": 0, "luck": draft.draw(f"luck of {place}")})
        return None


def dated(draft: Draft, intent: Intent) -> RuleRefusal | None:
    draft.answer({"seq": draft.seq})
    return put_in(draft, intent)


class Dated(Purses):
    """Correct: the output has the seq, so a dry run leaves it undecided."""

    rule = staticmethod(dated)


class Lucky(Purses):
    """Draws a number for each agent, and a second one if another agent has come before."""

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        count, luck = draft.state.count(PURSES), draft.draw("luck")
        draft.create(PURSES, agent_id, {"coins": 0, "luck": luck, "number": count})
        if count:
            draft.put(PURSES, agent_id, "second", draft.draw(f"luck {count}"))
        return None


class Indiscreet(Purses):
    """Shows each agent its own purse only, but a gift tells whether another purse is full."""

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        return ref.entity == agent_id


class Frank(Indiscreet):
    """Says what a gift tells."""

    def __init__(self) -> None:
        super().__init__()
        put, give = self.kinds
        self.kinds = [put, replace(give, discloses="Whether the other purse is there and full.")]


CONTROLS: list[tuple[Callable[[], Domain], str, str]] = [
    (
        Secretive,
        "a_dry_run_matches_the_real_run",
        r"'absent', though the last batch was only tried",
    ),
    (
        Rounded,
        "a_rule_changes_nothing_but_its_draft",
        r"The rule of Put rewrote a payload \{'coins': 3\} into \{'coins': 2\}\.",
    ),
    (Hurried, "a_rule_changes_nothing_but_its_draft", r"The rule of Put rewrote its intent\."),
    (Smuggler, "a_replay_gives_the_same_state", r"odd.hidden/box is changed but not there"),
    (Backdater, "a_replay_gives_the_same_state", r"who changed them when is not"),
    (Newborn, "re_execution_gives_the_same_log", r"may not decide it again"),
    (Vain, "settings_recreate_the_domain", r"Made of .*'size': 2.* its settings are .*'size': 3"),
    (large_branded, "settings_recreate_the_domain", r"it is another: version '1\+1', not '1\+3'"),
    (
        large_generous,
        "settings_recreate_the_domain",
        r"odd.purses/(ann|bob) gift is 1, which was 3",
    ),
    (Unwary, "rules_never_raise", r"rule of Put raised ZeroDivisionError"),
    (Clumsy, "rules_never_raise", r"on_register of odd raised KeyError: 'coins'.* Delete in"),
    (
        Leaky,
        "a_refused_batch_changes_nothing",
        r"odd.purses/(ann|bob|cyd) refused is \d+, which was 'absent'",
    ),
    (
        Remembering,
        "crashes_change_nothing",
        r"odd.purses/(ann|bob) puts is \d, which was \d, after crashes.* a new object of its class",
    ),
    (Mindful, "crashes_change_nothing", r"The last batch is .*; after a crash, submitted again"),
    (Mindful, "a_dry_run_matches_the_real_run", r"Tried before, .*; in earnest it is .*odd.tired"),
    (
        Secretive,
        "a_replay_gives_the_same_state",
        r"odd.purses/(ann|bob|cyd) secret is 'absent', which was \d",
    ),
    (
        Numbered,
        "re_execution_gives_the_same_log",
        r"odd.purses/(ann|bob|cyd) number .* rule is Put of odd 1",
    ),
    (
        Queued,
        "draws_do_not_depend_on_the_order_of_registration",
        r"(ann|bob) first draws \S+ as 'luck of \d'; registered in the opposite order, it first",
    ),
    (
        Numbered,
        "a_group_equals_its_batches",
        r"odd.purses/(ann|bob|cyd) number .* where the last batches were decided one by one",
    ),
    (Shuffled, "the_order_of_sets_does_not_matter", r"with PYTHONHASHSEED=1 differs"),
    (
        Doubled,
        "normalization_is_idempotent",
        r"normalized to .*coins.*; proposed in its place, that (comes out|is refused)",
    ),
    (Taxed, "invariants_hold_after_every_step", r"negative: (ann|bob|cyd) owes"),
    (Blind, "invariants_hold_after_every_step", r"full: the purse of (bob|cyd) bursts"),
    (Envious, "read_sets_are_complete", r"if first .*, it is refused, odd.enough"),
    (Sly, "read_sets_are_complete", r"if first .*, it is refused, odd.enough"),
    (Moody, "visibility_is_pure", r"May ann see odd.purses/\*\? .* answers are True, False, True"),
    (large_forgetful, "settings_recreate_the_domain", r"`settings` omits something"),
    (Overlooking, "interest_index_is_complete", r"sees odd.purses/(ann|bob|cyd) otherwise"),
    (
        Indiscreet,
        "hidden_changes_alter_no_answer",
        r"the answer(, if| to) ann proposes Give .* is (admitted|odd.no_room)",
    ),
    (Omitted, "hidden_collections_are_named", r"odd.purses/(ann|bob|cyd) is hidden from (ann|bob)"),
    (
        Unlisted,
        "hidden_collections_are_named",
        r"'coins' of odd.purses/\w+ is hidden from \w+",
    ),
    (Renamed, "settings_recreate_the_domain", r"Renamed\(\*\*\{'size': 3\}\), .* raised"),
]
"""(domain, name of the violated property, pattern of the finding)."""
