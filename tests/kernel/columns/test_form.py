"""The form of column batches: bad arrays raise before anything is decided, others are accepted."""

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList
from placet.kernel.arrays.words import content_hash
from placet.kernel.columns.verdict import ColumnVerdict
from placet.kernel.plugin.rows import Rows
from placet.schemas.limits import Limits
from placet.schemas.verdict import Verdict
from tests.kernel.columns.lab import Lab, lab_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

N = 4
NAN, INF = float("nan"), float("inf")


def world(**options: Any) -> tuple[Kernel, RecordList]:
    """Return a world of four birds, and its log."""
    log = RecordList()
    kernel = lab_kernel(N, N, KernelConfig(seed=1, **options), sink=log)
    kernel.register_population("birds", N, table="lab.agents", position=np.full((N, 2), 500.0))
    return kernel, log


class OnlyDLPack:
    """An array of a library that has DLPack and no array protocol."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnlyArray:
    """An array of a library that has the array protocol alone."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


class OnDevice:
    """An array whose memory is not the processor's."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("can't convert a device tensor to numpy")


class NoDevice:
    """An object with half of DLPack."""

    def __dlpack__(self) -> Any:
        raise BufferError("cannot export")


def refused(batch: ColumnBatch, message: str) -> None:
    """Check that a batch raises, also behind a good one, and that the world is as before."""
    kernel, log = world()
    before = (list(log), kernel.world_digest(), kernel.sim_time)
    good = ColumnBatch("Roll", "birds", {"x": [1] * N}, "good:0")
    calls: list[Callable[[], object]] = [
        lambda: kernel.decide_columns(batch, 5.0),
        lambda: kernel.step(1.0, [batch]),
        lambda: kernel.step(1.0, [good, batch]),
        lambda: kernel.decide_group([good, batch], 5.0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
        assert (list(log), kernel.world_digest(), kernel.sim_time) == before


GIVE = {"to": [1, 2, 3, 0], "amount": [1, 1, 1, 1]}
BAD_AMOUNTS: dict[str, tuple[Any, str]] = {
    "a longer array": ([1] * 5, r"amount of Give must be an array of shape \(4,\), got \(5,\)"),
    "a matrix": (np.ones((N, 1), "i4"), r"shape \(4,\), got \(4, 1\)"),
    "a number": (3, r"shape \(4,\), got \(\)"),
    "an array of no dimension": (np.array(3), r"shape \(4,\), got \(\)"),
    "nothing": ([], r"shape \(4,\), got \(0,\)"),
    "None": (None, r"shape \(4,\), got \(\)"),
    "fractions": ([1, 1.5, 1, 1], "integers that fit into i4, got 1.5 in row 1"),
    "no number": ([1, 1, NAN, 1], "integers that fit into i4, got nan in row 2"),
    "an infinity": (np.array([1, 1, 1, INF], "f2"), "fit into i4, got inf in row 3"),
    "too large an int": ([0, 2**31, 0, 0], "fit into i4, got 2147483648 in row 1"),
    "too large a float": ([0, 0, 2.0**31, 0], "fit into i4, got 2147483648.0 in row 2"),
    "too large a word": (np.array([2**63] * N, "u8"), "fit into i4, got 9223372036854775808"),
    "beyond all words": ([2**70] * N, "numbers of i4, got object"),
    "strings": (["1"] * N, "numbers of i4, got <U1"),
    "bytes": (np.array([b"1"] * N), "numbers of i4, got .S1"),
    "objects": (np.array([1] * N, object), "numbers of i4, got object"),
    "complex numbers": (np.ones(N, "c16"), "numbers of i4, got complex128"),
    "dates": (np.zeros(N, "M8[s]"), r"numbers of i4, got datetime64\[s\]"),
    "records": (np.zeros(N, [("a", "i4")]), "numbers of i4, got"),
    "ragged lists": ([[1], [1, 2], [1], [1]], "array of numbers, got list"),
    "masked items": (
        np.ma.array([1] * N, mask=[False, True, False, False]),
        "has masked items; fill them",
    ),
    "memory of a device": (OnDevice(), "array of numbers, got OnDevice: can't convert a device"),
    "half of DLPack": (NoDevice(), "array of numbers, got NoDevice"),
}


@pytest.mark.parametrize("name", BAD_AMOUNTS)
def test_a_bad_array_raises_before_anything_is_decided(name: str) -> None:
    amount, message = BAD_AMOUNTS[name]
    refused(ColumnBatch("Give", "birds", {**GIVE, "amount": amount}, "a:0"), message)


BAD_PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "payload of another name": (
        {"payload": {**GIVE, "amonut": 1}},
        "payload of Give has no field 'amonut'; did you mean 'amount'?",
    ),
    "payload without a field": ({"payload": {"to": GIVE["to"]}}, "lacks the field 'amount'"),
    "payload of no names": ({"payload": {**GIVE, 3: 1}}, "has no field 3; there are"),
    "payload that is a list": ({"payload": [1]}, r"must map \['amount', 'to'\] to arrays"),
    "kind of another name": ({"kind": "Gvie"}, "no kind 'Gvie'; .* did you mean 'Give'?"),
    "kind without a rule of rows": ({"kind": "Paint"}, "'Paint' has no rule of rows"),
    "kind that is no name": ({"kind": ["Give"]}, r"no kind \['Give'\]"),
    "population of another name": ({"population": "brids"}, "did you mean 'birds'?"),
    "population that is a number": ({"population": 7}, "no population 7; there are birds"),
    "req_id that is a number": ({"req_id": 7}, "req_id of a column batch must be a name, got 7"),
    "submitter that is empty": ({"submitter": ""}, "submitter of a column batch must be a name"),
    "member of another number": ({"agents": [0, 1, 2, 4]}, "numbers 0..3, got 4"),
    "member below zero": ({"agents": [0, 1, 2, -1]}, "numbers 0..3, got -1"),
    "member beyond ints": (
        {"agents": np.array([2**63 + 1] * N, "u8")},
        "numbers 0..3, got 9223372036854775809",
    ),
    "member twice": ({"agents": [0, 1, 2, 1]}, "each member once, and 1 is there twice"),
    "members that are a mask": ({"agents": [True] * N}, r"got bool; write np.flatnonzero\(mask\)"),
    "members that are floats": ({"agents": [0.0, 1.0, 2.0, 3.0]}, "integers, got float64"),
    "members that are a matrix": ({"agents": [[0, 1, 2, 3]]}, r"an array of shape \(1, 4\)"),
    "no members": ({"agents": []}, r"an array of shape \(0,\), got \(4,\)"),
    "members that are no array": ({"agents": OnDevice()}, "agents of .* got OnDevice"),
    "context that is a float": ({"context_seq": 1.0}, "context_seq must be a seq.* got float64"),
    "context that is a bool": ({"context_seq": True}, "context_seq must be a seq.* got bool"),
    "context below zero": ({"context_seq": -1}, "context_seq must be a seq of the world.* got -1"),
    "context of a row below zero": ({"context_seq": [0, 0, -3, 0]}, "seq of the world.* got -3"),
    "context beyond all seqs": ({"context_seq": 2**62}, "seq of the world.* got 4611686018427387"),
    "context beyond ints": ({"context_seq": 2**70}, "context_seq must be a seq.* got object"),
    "contexts of fewer rows": ({"context_seq": [0, 0]}, r"got int64 of shape \(2,\)"),
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_a_bad_part_raises_before_anything_is_decided(name: str) -> None:
    parts, message = BAD_PARTS[name]
    plain = {"kind": "Give", "population": "birds", "payload": GIVE, "req_id": "a:0"}
    refused(ColumnBatch(**{**plain, **parts}), message)


def test_a_kind_of_another_table_is_refused() -> None:
    kernel, _ = world()
    kernel.ledger.populations["birds"].table = "lab.others"
    with pytest.raises(ValueError, match=r"kind 'Roll' is of the table 'lab.agents', and the popu"):
        kernel.decide_columns(ColumnBatch("Roll", "birds", {"x": [1] * N}, "a:0"))


def test_a_world_without_populations_says_how_to_register_one() -> None:
    kernel = lab_kernel(N, N, KernelConfig())
    with pytest.raises(ValueError, match="register it by register_population"):
        kernel.decide_columns(ColumnBatch("Roll", "birds", {"x": [1] * N}, "a:0"))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"column_rows_max": 3}, r"at most 3 rows \(limits.column_rows_max\), got 4; split it"),
        ({"column_bytes_max": 31}, r"at most 31 bytes \(limits.column_bytes_max\), and 4 rows of"),
    ],
)
def test_a_batch_beyond_a_limit_raises(limits: dict[str, int], message: str) -> None:
    kernel, log = world()
    config = KernelConfig(seed=1, limits=Limits(**limits))
    kernel = Kernel(kernel.registry.domains, config, history=list(log), sink=log)
    batch = ColumnBatch("Give", "birds", GIVE, "a:0")
    before = kernel.world_digest()
    with pytest.raises(ValueError, match=message):
        kernel.step(1.0, [batch])
    assert kernel.world_digest() == before
    smaller = {name: values[:3] for name, values in GIVE.items()}
    assert len(kernel.decide_columns(ColumnBatch("Give", "birds", smaller, "a:0", [0, 1, 2]))) == 3


TO = np.array([[500.5, 500.25]] * N)
_FIXED = TO.copy()
_FIXED.flags.writeable = False
GOOD_ARRAYS: dict[str, Any] = {
    "lists": TO.tolist(),
    "tuples": tuple(map(tuple, TO.tolist())),
    "read-only": _FIXED,
    "big-endian": TO.astype(">f8"),
    "four bytes": TO.astype("f4"),
    "in the order of columns": np.asfortranarray(TO),
    "every second row": np.repeat(TO, 2, axis=0)[::2],
    "broadcast": np.broadcast_to(TO[0], TO.shape),
    "masked without a masked item": np.ma.array(TO),
    "DLPack alone": OnlyDLPack(TO),
    "the array protocol alone": OnlyArray(TO),
}


@pytest.mark.parametrize("name", GOOD_ARRAYS)
def test_an_array_of_any_layout_is_accepted(name: str) -> None:
    kernel, log = world()
    verdict = kernel.decide_columns(ColumnBatch("Move", "birds", {"to": GOOD_ARRAYS[name]}, "a:0"))
    assert verdict.counts() == {"admitted": N}
    assert (kernel.population("birds")["position"] == TO).all()
    plain, plain_log = world()
    plain.decide_columns(ColumnBatch("Move", "birds", {"to": TO.copy()}, "a:0"))
    assert log == plain_log


@pytest.mark.parametrize(
    "amount",
    [[True, False, True, True], [1.0, 0.0, 1.0, 1.0], np.array([1, 0, 1, 1], "u8"), [1, 0, 1, 1]],
)
def test_numbers_that_are_integers_are_accepted_for_integers(amount: Any) -> None:
    kernel, _ = world()
    batch = ColumnBatch("Give", "birds", {**GIVE, "amount": amount}, "a:0")
    assert kernel.decide_columns(batch).counts() == {"admitted": N}


@pytest.mark.parametrize(
    "agents", [[2, 0], (2, 0), np.array([2, 0], "u1"), OnlyDLPack(np.r_[2, 0])]
)
def test_members_are_named_by_any_integers(agents: Any) -> None:
    kernel, _ = world()
    kernel.change_agent("birds:2", "suspended")
    verdict = kernel.decide_columns(ColumnBatch("Slow", "birds", {"x": [1, 1]}, "a:0", agents))
    assert verdict.admitted.tolist() == [False, True]


def test_a_float_that_is_no_value_is_refused_by_row() -> None:
    kernel, _ = world()
    to = TO.copy()
    to[0, 0], to[1, 1] = NAN, INF
    verdict = kernel.decide_columns(ColumnBatch("Move", "birds", {"to": to}, "a:0"))
    assert verdict.counts() == {"admitted": 2, "payload_invalid": 2}


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_kernel_keeps_no_array_of_the_caller(is_whole: bool) -> None:
    kernel, log = world()
    to, agents = TO.copy(), None if is_whole else np.arange(N)
    contexts = np.full(N, kernel.seq)
    batch = ColumnBatch("Move", "birds", {"to": to}, "a:0", agents, contexts)
    verdict = kernel.decide_columns(batch)

    def seen() -> object:
        return list(log), kernel.world_digest(), [repr(one) for one in verdict]

    before = seen()
    to[:] = 0
    contexts[:] = 0
    if agents is not None:
        agents[:] = 0
    assert seen() == before
    again = ColumnBatch("Move", "birds", {"to": TO}, "a:0", None if is_whole else np.arange(N))
    assert kernel.decide_columns(again).replayed


def test_a_list_of_column_batches_has_their_verdicts_for_a_type_checker() -> None:
    kernel, _ = world()
    batch = ColumnBatch("Roll", "birds", {"x": [1] * N}, "a:0")
    assert_type(kernel.step(1.0, [batch]), list[ColumnVerdict])
    mixed: list[object] = [batch, []]
    assert_type(kernel.step(1.0, mixed), list[Verdict])
    assert_type(kernel.step(1.0), list[Verdict])


def test_a_rule_cannot_write_the_arrays_that_it_reads() -> None:
    seen: list[bool] = []

    def look(rows: Rows) -> None:
        arrays = [rows.numbers, rows.payload["x"], rows.own["hue"], rows.table("lab.cells")["who"]]
        seen.extend(array.flags.writeable for array in arrays)

    class Looking(Lab):
        def __init__(self) -> None:
            super().__init__(N, N)
            kind = Kind("Look", {"x": Field("i2")}, rows=look, table="lab.agents")
            self.kinds = (*self.kinds, kind)

    for is_whole in (True, False):
        kernel = Kernel(Looking())
        kernel.register_population("birds", N, table="lab.agents")
        x, agents = np.ones(N, "i2"), None if is_whole else np.arange(N)
        kernel.change_agent("birds:2", "suspended" if is_whole else "resumed")
        kernel.decide_columns(ColumnBatch("Look", "birds", {"x": x}, "a:0", agents))
        assert x.flags.writeable, "the caller's own array is as it was"
    assert seen == [False] * 8


class Plain(Domain):
    """A domain without a table."""

    name, version = "plain", "1"
    kinds = (Kind("Do", dict[str, int], lambda draft, intent: None),)


def test_a_column_batch_that_comes_as_an_ordinary_one_names_the_method() -> None:
    batch = ColumnBatch("Roll", "birds", {"x": [1] * N}, "a:0")
    message = "<ColumnBatch 'a:0' of Roll by birds> is decided by decide_columns or step, in a worl"
    kernel, _ = world()
    plain = Kernel(Plain())
    calls: list[Callable[[], object]] = [
        lambda: kernel.decide(batch),
        lambda: plain.decide(batch),
        lambda: plain.step(1.0, [batch]),
        lambda: plain.decide_group([batch, batch]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"no kind 'Roll'; .* there are none"):
        plain.decide_columns(batch)


def test_a_column_batch_shows_its_names_without_its_arrays() -> None:
    kernel, _ = world()
    batch = ColumnBatch("Roll", kernel.population("birds"), {"x": np.ones(N)}, "a:0")
    assert repr(batch) == "<ColumnBatch 'a:0' of Roll by birds>"


def test_contents_of_small_numbers_have_different_hashes() -> None:
    contents = [np.array([2, 0, 3, 5]), np.array([0, 8, 0, 4]), np.array([52, 0, 0, 0])]
    assert len({content_hash(content) for content in contents}) == 3
