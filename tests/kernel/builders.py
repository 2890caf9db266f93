"""Builders of intents and kernels for tests."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from placet.kernel import Domain, Kernel, KernelConfig, RecordList, RollbackMark
from placet.kernel.log.replay import Replayer
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import RollbackError
from placet.schemas.limits import Limits
from tests.kernel.domains import MAIL, Lab


def intent(kind: Any, payload: Any = None, req_id: str = "r", /, **fields: Any) -> dict[str, Any]:
    """Make an intent of alice's at seq 0, unless `fields` override it."""
    return {
        "kind": kind,
        "payload": {"amount": 1} if payload is None else payload,
        "agent_id": "alice",
        "req_id": req_id,
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
        **fields,
    }


def add(req_id: str, amount: int = 1, /, **fields: Any) -> dict[str, Any]:
    return intent("Add", {"amount": amount}, req_id, **fields)


def kernel_of(
    domain: Domain | Sequence[Domain] | None = None,
    *,
    agents: Sequence[str] = ("alice", "bob"),
    limits: Mapping[str, int] | None = None,
    sink: list[bytes] | None = None,
    history: Sequence[bytes] | Replayer = (),
    validator: Any = None,
    **config: Any,
) -> Kernel:
    """Make a kernel of the lab with two agents and an executor of mail."""
    kernel = Kernel(
        domain or Lab(),
        KernelConfig(limits=Limits(**(limits or {})), **config),
        effect_validator=validator,
        sink=None if sink is None else sink if isinstance(sink, RecordList) else sink.append,
        history=history,
    )
    if not history:
        kernel.change_executor(MAIL, 1000)
        for agent_id in agents:
            kernel.register_agent(agent_id)
    return kernel


def checked(kernel: Kernel, raw: object) -> CheckedBatch:
    """Return a valid batch after the structure stage."""
    batch = kernel.check(raw)
    assert isinstance(batch, CheckedBatch)
    return batch


_POOL: dict[tuple[Any, ...], tuple[Kernel, RecordList, RollbackMark]] = {}


def reused(which: int = 0, /, **settings: Any) -> tuple[Kernel, list[bytes]]:
    """Return a fresh kernel and its log, like `kernel_of`, without compiling it again.

    Two kernels of one law differ in `which`.
    """
    key = (which, *((name, _identity(value)) for name, value in settings.items()))
    if key in _POOL:
        kernel, log, start = _POOL[key]
        with suppress(RollbackError):  # it was restored from a snapshot meanwhile
            kernel.rollback(start)
            return kernel, log
    log = RecordList()
    kernel = kernel_of(sink=log, **settings)
    _POOL[key] = (kernel, log, kernel.mark())
    return kernel, log


def restore(kernel: Kernel, snapshot: bytes) -> None:
    """Restore a kernel with a sink, which gets the records from then on."""
    sink, kernel._journal.sink = kernel._journal.sink, None
    kernel.restore(snapshot)
    kernel._journal.sink = sink


def _identity(value: Any) -> Any:
    """Return what tells a setting from another; a domain only from itself.

    The kernel that is kept for a domain keeps it alive, so its `id` is not used again.
    """
    if isinstance(value, Domain):
        return id(value)
    return tuple(map(_identity, value)) if isinstance(value, list | tuple) else repr(value)


def trace(kernel: Kernel) -> tuple[str, str, int]:
    """Return the digests and the seq, which a batch without a record leaves unchanged."""
    return kernel.digest(), kernel.world_digest(), kernel.record_count
