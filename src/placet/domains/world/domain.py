"""The domain `world`: its settings, its kinds, and its hooks."""

from collections.abc import Mapping, Sequence
from typing import Final

from placet.domains.world.interactions import (
    Interaction,
    disclosed_by,
    footprint_of,
    interact_rule,
    interaction_names,
    revalidated_by,
)
from placet.domains.world.patch_rules import check_patched
from placet.domains.world.payloads import (
    AGENTS,
    INTERACTION_CHARS_MAX,
    OBJECTS,
    SPEECH,
    Custom,
    InteractPayload,
    Move,
    SpeakPayload,
)
from placet.domains.world.rules import custom, move_rule, speak_rule, with_cooldown
from placet.domains.world.settings import (
    SIGHT,
    WorldSettings,
    optional,
    read_bounds,
    read_cooldowns,
    read_count,
    read_length,
    read_plain,
    read_private_reach,
    read_teams,
)
from placet.domains.world.spawn import displace, place
from placet.domains.world.views import (
    hidden_fields_of,
    is_addressed_to,
    misspelled_fields,
    read_visibility,
)
from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.schemas.codec import Json, without_numpy
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

RULES_VERSION: Final = "2"


class World(Domain):
    """Agents and objects with positions; agents move, speak and interact (seed 003).

    Every limit is off by default. `register_agent(agent_id, position=[x, y], team="red",
    inventory=["lamp"])` sets an agent's attributes.

    Attributes:
        setup: The constructor's arguments, in the form that the rules use.
    """

    name = "world"
    collections = (AGENTS, OBJECTS, SPEECH)

    def __init__(
        self,
        *,
        objects: Mapping[str, Mapping[str, Json]] | None = None,
        bounds: Sequence[Sequence[float]] | None = None,
        max_step: float | None = None,
        interaction_range: float | None = None,
        inventory_max: int | None = None,
        cooldowns: Mapping[str, float] | None = None,
        interactions: Mapping[str, Rule | Interaction] | None = None,
        teams: Sequence[str] | None = None,
        observation: Mapping[str, Json] | None = None,
        private_reach: str = SIGHT,
    ) -> None:
        """Set up a world.

        Args:
            objects: Id -> `{"position": [x, y], "portable": True}` and any further fields.
            bounds: Lowest and highest corner; two-dimensional corners make a flat world.
            max_step: Maximum distance of one Move.
            interaction_range: Maximum distance of one Interact.
            inventory_max: Maximum number of objects that an agent may carry.
            cooldowns: Kind -> minimum simulated seconds between two intents of one agent.
            interactions: Name -> rule, called if its target exists and is in range. Pass a rule
                that checks the target as `Interaction(rule, when_stale="revalidate")`: then a
                change of the target does not make its intents stale.
            teams: Permitted teams; None permits any.
            observation: Visibility setting, such as `{"distance": 10, "hidden_fields":
                ["inventory"]}` (`docs/concepts/views.md`); None shows everything.
            private_reach: Whom a private message may name: `sight` the agents that the speaker may
                see; any other is refused as one that does not exist. `anywhere`: any name, also
                one that does not exist, since the answer would tell; only an agent that sees the
                speaker hears it.

        Raises:
            ValueError: A setting is invalid; the message names it.
        """
        own = optional(_read_interactions, "interactions", interactions) or {}
        settings = WorldSettings(
            bounds=optional(read_bounds, "bounds", bounds),
            max_step=optional(read_length, "max_step", max_step),
            interaction_range=optional(read_length, "interaction_range", interaction_range),
            inventory_max=optional(read_count, "inventory_max", inventory_max),
            cooldowns_ns=optional(read_cooldowns, "cooldowns", cooldowns) or {},
            teams=optional(read_teams, "teams", teams),
            interactions=tuple(sorted(own)),
            observation=optional(read_plain, "observation", observation),
            private_reach=read_private_reach("private_reach", private_reach),
        )
        self.sight = read_visibility("observation", observation)
        self.setup = settings = settings.with_objects(
            {} if objects is None else without_numpy(objects)
        )
        is_default = settings == WorldSettings()
        self.version = RULES_VERSION if is_default else f"{RULES_VERSION}+{settings.digest()}"
        self.kinds = _kinds(settings, own, None if observation is None else self.sight)
        self._cooldowns = {} if cooldowns is None else dict(without_numpy(cooldowns))

    def idle_names(self) -> Sequence[str]:
        """Return a sentence for each hidden field that is probably misspelled.

        A field that is unlike the known ones may be written by another domain or an interaction.
        """
        return misspelled_fields(self.setup.observation, self.setup.objects.values())

    def settings(self) -> Mapping[str, Json] | None:
        """Return the arguments that rebuild this world; None if it has custom interactions.

        A rule is code, not data: such a world must be remade by the program that defines its rules.
        """
        return None if self.setup.interactions else self.setup.keywords(self._cooldowns)

    def on_open(self, draft: Draft) -> None:
        """Create the objects, sorted by id.

        Because settings read from a log have no other order.
        """
        for object_id, fields in sorted(self.setup.objects.items()):
            draft.create(OBJECTS, object_id, fields)

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Create a new agent's entity; return a refusal if an attribute is invalid, else None."""
        return place(draft, agent_id, attributes, self.setup)

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Remove an agent from the world; the objects it carried stay at its position."""
        displace(draft, agent_id)

    def on_patch(self, draft: Draft, changed: Sequence[Ref]) -> RuleRefusal | None:
        """Check the positions and owners of an operator's patch; return a refusal, or None.

        Positions are normalized to the form that rules write.
        """
        return check_patched(draft, changed, self.setup)

    def should_deliver(self, state: State, agent_id: str, intent: Intent) -> bool:
        """Return whether a message is addressed to an agent or was sent by it."""
        payload, speaker = intent["payload"], intent["agent_id"]
        team = state.get(AGENTS, speaker, "team")
        return speaker == agent_id or (
            is_addressed_to(state, agent_id, payload["channel"], payload.get("target_id"), team)
            and self.may_see(state, agent_id, Ref(AGENTS, speaker))
        )


def _kinds(
    settings: WorldSettings, own: Mapping[str, Interaction], sight: VisibilityPolicy | None
) -> tuple[Kind, ...]:
    names, footprint = interaction_names(settings, own), footprint_of(own)
    discloses = disclosed_by(settings, hidden_fields_of(settings.observation))
    kinds = (
        ("Move", Move, move_rule(settings), None, "Go to a place."),
        (
            "Speak",
            SpeakPayload,
            speak_rule(settings, sight),
            None,
            "Say something to all, to a team, or to one agent.",
        ),
        (
            "Interact",
            InteractPayload,
            interact_rule(settings, own, sight),
            footprint,
            "Do something with an object or an agent.",
        ),
        ("Custom", Custom, custom, None, "Anything that the world's validator understands."),
    )
    return tuple(
        Kind(
            name,
            payload,
            with_cooldown(name, settings.cooldowns_ns.get(name), rule),
            reads=reads,
            reads_self=AGENTS if reads is None else None,
            revalidates=revalidated_by(own) if name == "Interact" else None,
            summary=summary,
            broadcast=name == "Speak",
            choices={"interaction_type": names} if name == "Interact" else {},
            discloses=discloses if name == "Interact" else "",
        )
        for name, payload, rule, reads, summary in kinds
    )


def _read_interactions(name: str, interactions: object) -> dict[str, Interaction]:
    if not isinstance(interactions, Mapping):
        raise ValueError(f"{name} must map names to rules, got {interactions!r}")
    read = {}
    for own, rule in interactions.items():
        if not isinstance(own, str) or not 0 < len(own) <= INTERACTION_CHARS_MAX:
            raise ValueError(
                f"{name} must have names of 1 to {INTERACTION_CHARS_MAX} characters, got {own!r}"
            )
        try:
            read[own] = rule if isinstance(rule, Interaction) else Interaction(rule)
        except ValueError as error:
            raise ValueError(f"interaction {own!r}: {error}") from None
    return read
