"""The history of a program: each commit stores the functions that it replaced, for `restore`.

A rule cannot read the log, so the domain keeps its history in its state, bounded: the latest 256
commits, and 8 MiB of replaced functions; the latest commit always. The program at a seq is the
present one, with the functions replaced by the first commit after that seq put back, function by
function.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet_program.functions import Function, edge, encoded, hash_of
from placet_program.payloads import (
    ARTIFACTS,
    CALLS,
    COMMIT_NODE_WORK,
    COMMITS,
    COMMITS_MAX,
    FUNCTION_BYTES_MAX,
    FUNCTIONS,
    HISTORY,
    HISTORY_BYTES_MAX,
    VERSIONS,
)

KEPT: Final = "kept"
_CONTENT: Final = ("params", "returns", "exported", "nodes", "result")


def commit(
    draft: Draft, op: Literal["mutate", "restore"], edited: Mapping[str, Function | None]
) -> RuleRefusal | dict[str, str | None]:
    """Write edited functions to the state as one commit, and store the replaced versions.

    Args:
        draft: The draft.
        op: Reason of the commit.
        edited: Function by name; None removes it.

    Returns:
        Hash of each changed function by name, None if removed; or a refusal if one is too large.
    """
    changed: dict[str, str | None] = {}
    replaced_bytes = 0
    for name, function in edited.items():
        was = content_of(draft.state, name)
        nodes = len(was["nodes"] if was else ()) + len(function.nodes if function else ())
        draft.charge(nodes * COMMIT_NODE_WORK + 20)
        data = b"" if function is None else encoded(function.content())
        if len(data) > FUNCTION_BYTES_MAX:
            return _too_large(name, len(data))
        hashed = None if function is None else hash_of(data)
        if draft.get(FUNCTIONS, name, "hash") == hashed:
            continue
        changed[name] = hashed
        replaced_bytes += 0 if was is None else len(encoded(was))
        draft.create(VERSIONS, _version(draft.seq, name), {"function": name, "was": was})
        _write(draft, name, function, hashed)
    if changed:
        fields = {"seq": draft.seq, "by": draft.agent_id, "op": op, "bytes": replaced_bytes}
        draft.create(COMMITS, _padded(draft.seq), {**fields, "functions": sorted(changed)})
        _forget(draft)
    return changed


def _too_large(name: str, size: int) -> RuleRefusal:
    return refuse(
        "function_too_large",
        f"{name!r} would have {size} bytes, at most {FUNCTION_BYTES_MAX} are allowed; split it",
        limit=FUNCTION_BYTES_MAX,
    )


def _write(draft: Draft, name: str, function: Function | None, hashed: str | None) -> None:
    _write_calls(draft, name, set() if function is None else function.calls())
    if function is None:
        draft.delete(FUNCTIONS, name)
        if draft.exists(ARTIFACTS, name):
            draft.delete(ARTIFACTS, name)
        return
    fields = {**function.content(), "hash": hashed}
    before = draft.entity(FUNCTIONS, name)
    if before is None:
        draft.create(FUNCTIONS, name, fields)
        return
    for field, value in fields.items():
        if field == "nodes" or before[field] != value:  # nodes of 1 and of 1.0 are equal to Python
            draft.put(FUNCTIONS, name, field, value)


def _write_calls(draft: Draft, name: str, calls: set[str]) -> None:
    fields = draft.entity(FUNCTIONS, name)
    before = set() if fields is None else Function.read(name, fields).calls()
    for callee in sorted(before - calls):
        draft.delete(CALLS, edge(name, callee))
    for callee in sorted(calls - before):
        draft.create(CALLS, edge(name, callee))


def _forget(draft: Draft) -> None:
    """Drop the oldest commits until the history is within its bounds. The latest always stays."""
    commits = list(draft.ids(COMMITS))
    draft.charge(len(commits))
    count, size = len(commits), sum(draft.get(COMMITS, commit, "bytes") for commit in commits)
    for old in commits[:-1]:
        if count <= COMMITS_MAX and size <= HISTORY_BYTES_MAX:
            break
        seq: int = draft.get(COMMITS, old, "seq")
        count, size = count - 1, size - draft.get(COMMITS, old, "bytes")
        for name in draft.get(COMMITS, old, "functions"):
            draft.delete(VERSIONS, _version(seq, name))
        draft.delete(COMMITS, old)
        if not draft.exists(HISTORY, KEPT):
            draft.create(HISTORY, KEPT)
        draft.put(HISTORY, KEPT, "since", seq)


# reading


def since(state: State) -> int:
    """Return the oldest seq at which the stored history still knows the program."""
    oldest: int = state.get(HISTORY, KEPT, "since", 0)
    return oldest


def content_of(state: State, name: str) -> dict[str, Json] | None:
    """Return the content of a function as the state has it; None if there is no such function."""
    fields = state.entity(FUNCTIONS, name)
    return None if fields is None else {field: fields[field] for field in _CONTENT}


def commits(state: State, from_seq: int, to_seq: int) -> Iterator[Mapping[str, Json]]:
    """Yield the kept commits with a seq from `from_seq` to `to_seq`, both included, oldest first.

    A commit is the record of an edit of the program's functions. O(kept commits).
    """
    for commit_id in state.ids(COMMITS):
        if _padded(from_seq) <= commit_id <= _padded(to_seq):
            fields = state.entity(COMMITS, commit_id)
            assert fields is not None, "it was listed"
            yield fields


def replaced_since(state: State, seq: int, last: int) -> dict[str, Json]:
    """Return the content at `seq` of each function that changed after it, up to seq `last`.

    The content is None if the function did not exist.
    """
    were: dict[str, Json] = {}
    for commit in commits(state, seq + 1, last):
        for name in commit["functions"]:
            if name not in were:
                were[name] = state.get(VERSIONS, _version(commit["seq"], name), "was")
    return were


def check_seq(state: State, seq: int, last: int, at: str) -> RuleRefusal | None:
    """Return a refusal of a seq in the future, or before the stored history; else None.

    Args:
        state: State with the stored history.
        seq: The seq to check.
        last: The current seq.
        at: JSON pointer to the seq in the payload.
    """
    if seq > last:
        return refuse("seq_unknown", f"the latest seq is {last}, {seq} is yet to come", at=at)
    oldest = since(state)
    if seq < oldest:
        message = f"the past is kept from seq {oldest} on, {seq} is before; name a later one"
        return refuse("seq_too_old", message, at=at, since=oldest)
    return None


def _version(seq: int, name: str) -> str:
    return f"{_padded(seq)}/{name}"


def _padded(seq: int) -> str:
    """Return a seq padded with zeros, so that the order of texts is the order of seqs."""
    return f"{seq:016d}"
