"""The rules of the seven kinds: from a payload to writes and an answer."""

from typing import Final

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet_program.diagnostics import Diagnostic, errors_of, verify
from placet_program.edit_buffer import EditBuffer
from placet_program.execution.compiler import compile_function
from placet_program.execution.simulation import Run, arguments_of, json_value, run
from placet_program.functions import Function, Functions
from placet_program.history import check_seq, commit, replaced_since
from placet_program.mutations import apply
from placet_program.payloads import (
    ARTIFACTS,
    CALLS,
    COMMITS,
    FUEL,
    FUNCTIONS,
    TRACE_MAX,
)
from placet_program.refusals import not_verified, unknown_function
from placet_program.views import bounded, cut, history, inspect

_TRACED_BYTES_MAX: Final = 256


def reads_named(intent: Intent) -> list[Ref]:
    """Return the footprint of `mutate_batch`: every function that it names or calls, in order.

    Removing a function depends on all calls, because no other function may call it.
    """
    payload = intent["payload"]
    refs = [Ref(FUNCTIONS, name) for name in payload.get("expected", ())]
    for mutation in payload["mutations"]:
        op = mutation["op"]
        is_whole = op in {"add_function", "remove_function"}
        refs.append(Ref(FUNCTIONS, mutation["name" if is_whole else "function"]))
        if op == "remove_function":
            refs.append(Ref(CALLS))
        elif op == "set_node" and mutation["node"]["op"] == "call":
            refs.append(Ref(FUNCTIONS, mutation["node"]["target"]))
    return list(dict.fromkeys(refs))


def reads_all(_intent: Intent) -> tuple[Ref, ...]:
    """Return the footprint of `restore`: everything, so that it reverts no unseen commit."""
    return (Ref(COMMITS),)


def mutate_batch(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.mutate_batch`: all of its mutations, or a refusal."""
    payload = intent["payload"]
    edits = EditBuffer(draft.state, draft.charge)
    for name, expected in payload.get("expected", {}).items():
        digest = edits.hash(name)
        if digest != expected:
            message = f"{name!r} has the hash {digest}, {expected} was expected; look again"
            return refuse("stale", message, at=f"/expected/{name}", hash=digest)
    refusal = apply(edits, payload["mutations"])
    if refusal is not None:
        return refusal
    changed = commit(draft, "mutate", edits.edited)
    if isinstance(changed, RuleRefusal):
        return changed
    draft.answer({"functions": changed})
    return None


def verify_rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.verify`: output the errors and warnings of one function, or of all."""
    functions, name = Functions(draft.state, draft.charge), intent["payload"].get("function")
    if name is not None and functions.find(name) is None:
        return unknown_function(name, functions, "/function")
    diagnostics: list[Diagnostic] = []
    for function_name in functions.names() if name is None else [name]:
        function = functions.find(function_name)
        assert function is not None, "it was listed"
        diagnostics += verify(functions, function)
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    answer = {"ok": not errors, "errors": errors, "warnings": len(diagnostics) - errors}
    # Errors first, in case not all diagnostics fit into the answer.
    diagnostics.sort(key=lambda diagnostic: diagnostic.severity)
    rows = (diagnostic.as_dict() for diagnostic in diagnostics)
    draft.answer(bounded(answer, "diagnostics", rows))
    return None


def compile_rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.compile`: compile a function to Python, and store the result."""
    functions, entry = Functions(draft.state, draft.charge), intent["payload"]["entry"]
    refusal = _not_sound(functions, entry, "/entry")
    if refusal is not None:
        return refusal
    compiled = compile_function(functions, entry)
    if isinstance(compiled, RuleRefusal):
        return compiled
    if not draft.exists(ARTIFACTS, entry):
        draft.create(ARTIFACTS, entry)
    for field, value in compiled._asdict().items():
        if draft.get(ARTIFACTS, entry, field) != value:  # a function may change, and its source not
            draft.put(ARTIFACTS, entry, field, value)
    source = cut(compiled.source)
    answer = {"entry": entry, "language": "python", "hash": compiled.hash, "source": source}
    draft.answer({**answer, "truncated": source != compiled.source})
    return None


def simulate(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.simulate`: run a function and output its result."""
    payload = intent["payload"]
    functions, name = Functions(draft.state, draft.charge), payload["function"]
    refusal = _not_sound(functions, name, "/function")
    if refusal is not None:
        return refusal
    function = functions.find(name)
    assert function is not None, "it is sound"
    arguments = arguments_of(function, payload.get("inputs", {}))
    if isinstance(arguments, RuleRefusal):
        return arguments
    is_traced = payload.get("trace", False)
    outcome = run(functions, function, arguments, payload.get("fuel", FUEL), is_traced=is_traced)
    draft.answer(_answer(outcome, function.returns, is_traced=is_traced))
    return None


def _answer(outcome: Run, returns: str, *, is_traced: bool) -> dict[str, Json]:
    """Return the result of a run, with its value and trace cut to the size of an answer."""
    answer = outcome.as_dict(returns)
    whole = answer.get("value")
    is_cut = False
    if whole is not None:
        answer["value"] = cut(whole)
        is_cut = answer["value"] != whole
    if is_traced:
        rows = (
            {"at": at, "op": op, "value": cut(json_value(value), _TRACED_BYTES_MAX)}
            for at, op, value in outcome.trace
        )
        answer = bounded(answer, "trace", rows, TRACE_MAX)
        is_cut = is_cut or answer["truncated"]
    return {**answer, "truncated": is_cut}


def _not_sound(functions: Functions, name: str, at: str) -> RuleRefusal | None:
    """Return the refusal for a function that does not exist or has errors."""
    if functions.find(name) is None:
        return unknown_function(name, functions, at)
    errors = errors_of(functions, name)
    return not_verified(errors, at) if errors else None


def inspect_rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.inspect`: output a part of the current program."""
    answer = inspect(Functions(draft.state, draft.charge), intent["payload"])
    if isinstance(answer, RuleRefusal):
        return answer
    draft.answer(answer)
    return None


def history_query(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.history_query`: output a part of the program's history."""
    answer = history(draft.state, draft.charge, intent["payload"], draft.seq)
    if isinstance(answer, RuleRefusal):
        return answer
    draft.answer(answer)
    return None


def restore(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `program.restore`: restore an earlier seq's program by a new, revertible commit."""
    to_seq, last = intent["payload"]["to_seq"], draft.seq - 1
    refusal = check_seq(draft.state, to_seq, last, "/to_seq")
    if refusal is not None:
        return refusal
    were = replaced_since(draft.state, to_seq, last)
    edited = {name: None if was is None else Function.read(name, was) for name, was in were.items()}
    changed = commit(draft, "restore", edited)
    assert not isinstance(changed, RuleRefusal), "what was before was not too large"
    draft.answer({"to_seq": to_seq, "functions": changed})
    return None
