"""Parse plain sentences into actions; ask back if anything is uncertain.

`set beam to 9 m`, `increase power by 15 %`, `lock hull length`, `60 m aluminum ferry, 12 m beam`.
The parser never guesses: an unknown word or unit, two candidates, a negation, or a bare number that
fits two units turns the whole text into a clarification with the candidates. The result is a
proposal like any other: the gate decides it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from placet.schemas.codec import Json
from placet_design.actions.protocol import Action, ActionType, Intent, IntentType, Moment
from placet_design.exports import FORMATS
from placet_design.phases import PHASES
from placet_design.refinable_fields import REFINABLE_SCHEMA, RefinableField
from placet_design.text.actions import Wording, contradictions
from placet_design.text.clauses import (
    Item,
    UnclearError,
    either,
    items_of,
    step_at,
)
from placet_design.text.lexicon import Lexicon, Meaning, Token, tokens_of

TEXT_CHARS_MAX: Final = 4_000
"""As long as the log takes what was said."""

_LEXICON: Final = Lexicon(REFINABLE_SCHEMA)
NOTHING_KNOWN: Final[Mapping[str, Json]] = MappingProxyType({})

_CREATE: Final = "create"
_ADD: Final = "add"
_REMOVE: Final = "remove"
_VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("set", "make", "change", "adjust", "put", "use"), ActionType.SET.value),
        **dict.fromkeys(("increase", "raise", "enlarge", "more"), ActionType.INCREASE.value),
        **dict.fromkeys(("decrease", "reduce", "lower", "cut", "less"), ActionType.DECREASE.value),
        **dict.fromkeys(("lock", "freeze"), ActionType.LOCK.value),
        **dict.fromkeys(("unlock", "unfreeze"), ActionType.UNLOCK.value),
        **dict.fromkeys(("run", "rerun", "execute"), ActionType.RUN_PHASES.value),
        "export": ActionType.EXPORT.value,
        **dict.fromkeys(("create", "design", "build"), _CREATE),
        "add": _ADD,
        **dict.fromkeys(("remove", "subtract"), _REMOVE),
    }
)
_DESCRIBING: Final = frozenset({None, ActionType.SET.value, _CREATE})
_CHANGES: Final[Mapping[str, ActionType]] = MappingProxyType(
    {
        ActionType.INCREASE.value: ActionType.INCREASE,
        ActionType.DECREASE.value: ActionType.DECREASE,
        _ADD: ActionType.INCREASE,
        _REMOVE: ActionType.DECREASE,
    }
)
_SEPARATORS: Final = frozenset({",", ";", ".", "!", "?", "and", "then", "&"})
_POLITE: Final = (
    ("please",),
    ("can", "you"),
    ("could", "you"),
    ("would", "you"),
    ("i", "want"),
    ("we", "want"),
    ("i", "need"),
    ("we", "need"),
    ("to",),
)
_ASKING: Final = frozenset(
    {"what", "what's", "how", "why", "when", "which", "who", "where", "is", "are", "does"}
)
_NEGATIONS: Final = frozenset(
    (
        *("not", "no", "never", "nor", "neither", "none", "nothing", "nobody", "nowhere"),
        *("without", "cannot", "cant", "dont", "doesnt", "didnt", "wont", "shouldnt", "mustnt"),
        *("wouldnt", "couldnt", "isnt", "arent", "avoid", "except", "unless", "instead"),
        *("rather", "stop", "cancel", "undo", "revert", "ignore", "forget", "skip"),
    )
)
_RUN_NOISE: Final = frozenset({"the", "phase", "phases", "again", "please", "design", "default"})
_ALL_PHASES: Final = frozenset({"all", "everything", "pipeline"})
_EXPORT_NOISE: Final = frozenset(
    {"the", "design", "it", "as", "to", "in", "a", "an", "file", "report", "format", "please"}
)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A fully understood text. A question has no actions.

    Attributes:
        intent: The parsed message, to be logged with the plan.
        actions: Actions in order, ready to be submitted.
    """

    intent: Intent
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Clarification:
    """A question about a text, to be answered before anything is submitted.

    Attributes:
        intent: The parsed message.
        question: Question for the user.
        candidates: Paths, units, phases or words to choose from; may be empty.
        understood: Actions of the clauses before the unclear one; not submitted.
        said: The unclear words, in or beside which a field should have been named.
    """

    intent: Intent
    question: str
    candidates: tuple[str, ...] = ()
    understood: tuple[Action, ...] = ()
    said: str = ""

    @property
    def actions(self) -> tuple[Action, ...]:
        """The question, as an action that can be submitted."""
        return (Action(ActionType.REQUEST_CLARIFICATION, message=self.question),)


class _Clause(NamedTuple):
    """The result of a clause; the next clause may omit its verb."""

    verb: str | None
    actions: list[Action]


def parse_text(
    text: str,
    *,
    fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA,
    current: Mapping[str, Json] = NOTHING_KNOWN,
    intent_id: str = "intent",
    design_id: str = "design",
    parsed_at: Moment | None = None,
) -> ParsedText | Clarification:
    """Parse a text about a design into actions; never raises for its content.

    Args:
        text: The message, at most 4 000 characters.
        fields: Path -> field that sentences may name.
        current: Values of the design by path, in the kernel's units; `by 15 %` refers to one of
            these.
        intent_id: Id of the resulting intent.
        design_id: Id of the design.
        parsed_at: Time of parsing, from the caller: the result must not depend on a clock.

    Returns:
        A `ParsedText`, or a `Clarification` if a part of the text is unclear.
    """

    def intent(intent_type: IntentType, confidence: float) -> Intent:
        said = text[:TEXT_CHARS_MAX]
        return Intent(intent_id, design_id, said, intent_type, confidence, parsed_at)

    reader = _Reader(fields, current)
    try:
        intent_type = reader.read(text)
    except UnclearError as unclear:
        is_known = reader.knows_any_of(text[:TEXT_CHARS_MAX])
        asked = intent(IntentType.CLARIFY if is_known else IntentType.UNKNOWN, 0.5 * is_known)
        understood = tuple(reader.actions)
        return Clarification(asked, str(unclear), unclear.candidates, understood, unclear.said)
    return ParsedText(intent(intent_type, 1.0), tuple(reader.actions))


class _Reader:
    """Reads one text; each clause appends to `actions`."""

    def __init__(self, fields: Mapping[str, RefinableField], current: Mapping[str, Json]) -> None:
        self.actions: list[Action] = []
        self._lexicon = _LEXICON if fields is REFINABLE_SCHEMA else Lexicon(fields)
        self._wording = Wording(fields, current)

    def read(self, text: str) -> IntentType:
        if len(text) > TEXT_CHARS_MAX:
            raise UnclearError(f"the text has {len(text)} characters, at most {TEXT_CHARS_MAX}")
        tokens = tokens_of(text)
        for token in tokens:
            if token.word in _NEGATIONS or token.word.endswith("n't"):
                raise UnclearError(
                    f"{token.text!r} denies something, or takes it back; say what should be done"
                )
        clauses = _clauses(tokens)
        if not clauses:
            raise UnclearError("nothing was said")
        if _is_question(clauses[0], tokens):
            return IntentType.QUERY
        before = _Clause(None, [])
        verbs = []
        for clause in clauses:
            before = self._clause(clause, before)
            self.actions += before.actions
            verbs.append(before.verb)
        self.actions = _runs_together(self.actions)
        paths = list(dict.fromkeys(contradictions(self.actions)))
        if paths:
            self.actions.clear()
            raise UnclearError(f"{either(paths)} is set to two different values; which?", paths)
        return _intent_type(verbs)

    def knows_any_of(self, text: str) -> bool:
        words = [token.word for token in tokens_of(text)]
        return any(
            word in _VERBS or self._lexicon.match(words[index : index + 6])[1]
            for index, word in enumerate(words)
        )

    def _clause(self, tokens: list[Token], before: _Clause) -> _Clause:
        verb, step, rest = _verb(tokens)
        if verb is None and before.verb in _DESCRIBING:
            items = items_of(rest, self._lexicon)
            return _Clause(before.verb, self._wording.described(items))
        if verb is None:
            # Until this clause is clear, the one that it leans on is not: `beam and draft by 1 m`.
            del self.actions[-len(before.actions) :]
            leaning = self._leaning(rest, before)
            return _Clause(before.verb, [*before.actions, leaning])
        if verb == ActionType.RUN_PHASES:
            return _Clause(verb, [_run(rest)])
        if verb == ActionType.EXPORT:
            return _Clause(verb, [_export(rest)])
        if verb in _CHANGES:
            return _Clause(verb, [self._change(verb, [*step, *rest])])
        items = items_of([*step, *rest], self._lexicon)
        if verb in {ActionType.LOCK.value, ActionType.UNLOCK.value}:
            return _Clause(verb, _locks(items, ActionType(verb)))
        return _Clause(verb, self._wording.described(items))

    def _change(self, verb: str, tokens: Sequence[Token]) -> Action:
        if verb in {_ADD, _REMOVE}:
            return self._wording.added(items_of(tokens, self._lexicon), _CHANGES[verb])
        items = items_of(tokens, self._lexicon, has_steps=True)
        return self._wording.changed(items, _CHANGES[verb])

    def _leaning(self, tokens: list[Token], before: _Clause) -> Action:
        """Read a clause that takes the verb of the clause before it: `lock beam and draft`."""
        verb = before.verb
        if verb == ActionType.RUN_PHASES:
            return _run(tokens)
        if verb in {ActionType.LOCK.value, ActionType.UNLOCK.value}:
            items = items_of(tokens, self._lexicon)
            return _locks(items, ActionType(verb))[0]
        if verb is not None and verb in _CHANGES:
            action = self._change(verb, tokens)
            # `increase beam and draft by 1 m` may be both by 1 m: like goes with like only.
            last = before.actions[-1]
            if (action.action_type, action.amount is None) == (
                last.action_type,
                last.amount is None,
            ):
                return action
        raise UnclearError(f"no verb for {_said(tokens)!r}; begin with one, such as set")


def _clauses(tokens: Sequence[Token]) -> list[list[Token]]:
    clauses: list[list[Token]] = [[]]
    for token in tokens:
        if token.word in _SEPARATORS or token.kind == "space":
            clauses.append([])
        else:
            clauses[-1].append(token)
    return [clause for clause in clauses if clause]


def _is_question(clause: Sequence[Token], tokens: Sequence[Token]) -> bool:
    words = [token.word for token in clause[:2]]
    is_request = tuple(words) in _POLITE or tuple(words[:1]) in _POLITE
    return not is_request and (words[0] in _ASKING or tokens[-1].word == "?")


def _verb(tokens: Sequence[Token]) -> tuple[str | None, list[Token], list[Token]]:
    """Split a clause into its verb, a named step before it, and the rest."""
    rest = list(tokens)
    while polite := next((p for p in _POLITE if _starts(rest, p)), None):
        rest = rest[len(polite) :]
    _, length = step_at(rest)
    step, after = rest[:length], rest[length:]
    if after and after[0].word in _VERBS:
        return _VERBS[after[0].word], step, after[1:]
    return None, [], rest


def _starts(tokens: Sequence[Token], phrase: tuple[str, ...]) -> bool:
    return tuple(token.word for token in tokens[: len(phrase)]) == phrase


def _locks(items: Sequence[Item], action_type: ActionType) -> list[Action]:
    fields = [item for item in items if isinstance(item, Meaning) and item.value is None]
    if not fields or len(fields) < len(items):
        raise UnclearError(f"{action_type.value} names fields and nothing else; which?")
    return [Action(action_type, field.path) for field in fields]


def _run(tokens: Sequence[Token]) -> Action:
    words = [token.word for token in tokens if token.word not in _RUN_NOISE]
    if words and all(word in _ALL_PHASES for word in words):
        return Action(ActionType.RUN_PHASES)
    strange = [word[:40] for word in words if word not in PHASES]
    if strange or not words:
        question = f"{strange[0]!r} is no phase" if strange else "which phase?"
        raise UnclearError(f"{question}; there are {either(list(PHASES))}", list(PHASES))
    return Action(ActionType.RUN_PHASES, phases=words)


def _runs_together(actions: Sequence[Action]) -> list[Action]:
    """Merge adjacent runs of phases: a second run would not see the results of the first."""
    together: list[Action] = []
    for action in actions:
        last = together[-1] if together else None
        if last is None or not last.action_type is action.action_type is ActionType.RUN_PHASES:
            together.append(action)
        elif last.phases is None or action.phases is None:
            together[-1] = Action(ActionType.RUN_PHASES)
        else:
            phases = list(dict.fromkeys(last.phases + action.phases))
            together[-1] = Action(ActionType.RUN_PHASES, phases=phases)
    return together


def _export(tokens: Sequence[Token]) -> Action:
    words = [token.word for token in tokens if token.word not in _EXPORT_NOISE]
    if len(words) != 1 or words[0] not in FORMATS:
        formats = sorted(FORMATS)
        raise UnclearError(f"in which format? there are {either(formats)}", formats)
    return Action(ActionType.EXPORT, format=words[0])


def _intent_type(verbs: Sequence[str | None]) -> IntentType:
    """Return the purpose: a creation, a refinement, or the purpose of the first action."""
    if _CREATE in verbs:
        return IntentType.CREATE
    others = {
        ActionType.LOCK.value: IntentType.LOCK,
        ActionType.UNLOCK.value: IntentType.LOCK,
        ActionType.RUN_PHASES.value: IntentType.RUN_PIPELINE,
        ActionType.EXPORT.value: IntentType.EXPORT,
    }
    if any(verb not in others for verb in verbs):
        return IntentType.REFINE
    return others[str(verbs[0])]


def _said(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)[:40]
