"""The domain `program`: its settings, its kinds, and its hooks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from placet.kernel.plugin.domain import Command, Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet_program import payloads, rules
from placet_program.diagnostics import errors_of
from placet_program.functions import Functions

RULES_VERSION: Final = "2"

GUIDE: Final = """\
A program is functions; a function is a graph of nodes without circles, and returns its result \
node. Types are int, float, bool and str, and are inferred: a const has the type of its value (2 \
is an int, 2.0 a float). Nodes: const has a value, param and call have a target; all but const and \
param take inputs, in order: add sub mul div mod min max neg abs, eq ne lt le gt ge, and or not, \
select (condition, then, else; only the one chosen is computed), to_int to_float to_str, concat \
len. Repetition is recursion through call. Build a function by one program.mutate_batch: \
add_function, set_node for each node, set_result; then program.verify, program.simulate, \
program.compile. Names are of lower case letters, digits and underscores."""


class Program(Domain):
    """A program as typed functions that agents edit, verify, run and compile (seed 001).

    Attributes:
        verify_exported: See the constructor's argument.
    """

    name = "program"
    guide = GUIDE
    collections = payloads.COLLECTIONS
    hides = frozenset({payloads.VERSIONS, payloads.HISTORY})

    def __init__(self, *, verify_exported: bool = False) -> None:
        """Set up a program, which starts empty.

        Args:
            verify_exported: Refuse a batch that leaves errors in a function marked `exported`, or
                in a function that it calls.

        Raises:
            ValueError: A setting is invalid; the message names it.
        """
        if type(verify_exported) is not bool:
            raise ValueError(f"verify_exported must be true or false, got {verify_exported!r}")
        self.verify_exported = verify_exported
        self.version = f"{RULES_VERSION}+verify_exported" if verify_exported else RULES_VERSION
        self.kinds = tuple(map(_with_invariants, _KINDS)) if verify_exported else _KINDS
        self.commands = _COMMANDS

    def settings(self) -> Mapping[str, Json]:
        """Return the arguments that rebuild this domain."""
        return {"verify_exported": True} if self.verify_exported else {}

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return True but for the stored history, which is long; `history_query` reads it."""
        return ref.collection not in self.hides

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        """Check that exported functions have no errors, if the setting requires it."""
        if not self.verify_exported:
            return
        names = {ref.entity for ref in changed if ref.collection == payloads.FUNCTIONS}
        functions = Functions(state)
        for name in functions.names() if names else ():
            if not state.get(payloads.FUNCTIONS, name, "exported"):
                continue
            if names.isdisjoint(function.name for function in functions.reachable(name)):
                continue
            errors = errors_of(functions, name)
            if errors:
                message = f"{name!r} is exported and must be free of errors: {errors[0].message}"
                listed = [error.as_dict() for error in errors[:8]]
                yield refuse("not_verified", message, function=name, diagnostics=listed)


def _with_invariants(kind: Kind) -> Kind:
    """Charge the work of the invariants, which verify every exported function after a change."""
    rule = kind.rule
    if kind.name not in {"program.mutate_batch", "program.restore"}:
        return kind

    def rule_and_invariants(draft: Draft, intent: Intent) -> RuleRefusal | None:
        refusal = rule(draft, intent)
        if refusal is None:
            functions = Functions(draft.state)
            nodes = sum(len(draft.get(payloads.FUNCTIONS, f, "nodes")) for f in functions.names())
            draft.charge(nodes * payloads.VERIFY_NODE_WORK)
        return refusal

    return replace(kind, rule=rule_and_invariants)


_OF_THE_PAST: Final = "Earlier versions of all functions, and their authors, which no view shows."

_KINDS: Final = (
    Kind(
        "program.mutate_batch",
        payloads.MutateBatch,
        rules.mutate_batch,
        reads=rules.reads_named,
        summary="Change functions: all mutations, in order, or none.",
    ),
    Kind(
        "program.verify",
        payloads.Verify,
        rules.verify_rule,
        risk="read",
        summary="List errors and warnings of one function or all.",
    ),
    Kind(
        "program.compile",
        payloads.Compile,
        rules.compile_rule,
        summary="Make Python source of a function and all it calls.",
    ),
    Kind(
        "program.simulate",
        payloads.Simulate,
        rules.simulate,
        risk="read",
        summary="Run a function with bounded fuel.",
    ),
    Kind(
        "program.inspect",
        payloads.Inspect,
        rules.inspect_rule,
        risk="read",
        summary="Look at functions and nodes, or search them.",
    ),
    Kind(
        "program.history_query",
        payloads.HistoryQuery,
        rules.history_query,
        risk="read",
        summary="List what changed, or compare two moments.",
        discloses=_OF_THE_PAST,
    ),
    Kind(
        "program.restore",
        payloads.Restore,
        rules.restore,
        reads=rules.reads_all,
        risk="medium",
        summary="Restore the program of a seq.",
        discloses=_OF_THE_PAST,
    ),
)

HELLO: Final = (
    {"op": "add_function", "name": "main", "params": [], "returns": "str"},
    {
        "op": "set_node",
        "function": "main",
        "name": "hello",
        "node": {"op": "const", "value": "Hello, world!"},
    },
    {"op": "set_result", "function": "main", "node": "hello"},
)
"""The mutations that make the smallest program of use."""

_COMMANDS: Final = (
    Command(
        "create hello world program",
        "program.mutate_batch",
        lambda _: {"mutations": [dict(mutation) for mutation in HELLO]},
    ),
    Command("compile program", "program.compile", lambda _: {"entry": "main"}),
    Command("run program", "program.simulate", lambda _: {"function": "main"}),
)
"""Seed 001's phrases."""
