"""Writes are checked before the disk is touched, and have a receipt after it."""

import hashlib
from pathlib import PurePosixPath

import pytest
from tests.files.test_paths import BAD_PATHS

from placet.kernel import Kernel
from placet.schemas.effect import EffectKey, Settlement
from placet_files import ANALYZE, CREATE, INSPECT, RECEIPTS, USAGE, WRITES, Files
from placet_files.rules import risk_of_creating
from tests.domains.world_driver import WorldDriver


class FilesStage(WorldDriver):
    """A world of files without real executors: the test settles the effects."""

    def __init__(self, **settings):
        super().__init__(Files(**settings))
        for kind in (CREATE, ANALYZE, INSPECT):
            self.kernel.change_executor(kind, 100)

    def create(self, filename, content="x", *, agent="ann", **more):
        return self.propose(agent, CREATE, filename=filename, content=content, **more)

    def settle(self, verdict, *, succeeded=True, output=None):
        key = EffectKey("world", verdict.seq, 0)
        assert self.kernel.settle(Settlement(key, succeeded, output))

    @property
    def usage(self):
        return dict(self.kernel.state[USAGE]["all"])

    def rows(self, collection):
        return {path: dict(row) for path, row in self.kernel.state.get(collection, {}).items()}


@pytest.fixture
def stage():
    return FilesStage()


def of(content, seq):
    data = content.encode()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "seq": seq}


@pytest.mark.parametrize(("path", "code"), BAD_PATHS.items())
@pytest.mark.parametrize(
    ("kind", "field"), [(CREATE, "filename"), (ANALYZE, "path"), (INSPECT, "zip_path")]
)
def test_a_bad_path_is_refused_with_its_code_by_every_kind(stage, path, code, kind, field):
    more = {"content": "x"} if kind == CREATE else {}
    verdict = stage.propose("ann", kind, **{field: path}, **more)
    assert verdict.codes == (f"files.{code}",)
    assert verdict.refusals[0].at == f"/intents/0/payload/{field}"
    assert stage.kernel.open_effects() == []


def test_a_write_is_reserved_then_receipted(stage):
    verdict = stage.create("a/b.txt", "héllo")
    assert stage.rows(WRITES) == {"a/b.txt": of("héllo", verdict.seq)}
    assert stage.rows(RECEIPTS) == {}
    assert stage.usage == {"files": 1, "bytes": 6}
    [effect] = stage.kernel.open_effects()
    asked = {name: value for name, value in effect.payload.items() if name != "sha256"}
    assert asked == {
        "path": "a/b.txt",
        "content": "héllo",
        "bytes": 6,
        "overwrite": False,
        "replaces": None,
    }
    stage.settle(verdict)
    assert stage.rows(WRITES) == {}
    assert stage.rows(RECEIPTS) == {"a/b.txt": of("héllo", verdict.seq)}
    assert stage.usage == {"files": 1, "bytes": 6}


def test_a_failed_write_releases_its_reservation(stage):
    stage.settle(stage.create("a"), succeeded=False, output="FileRefused: io_error")
    assert (stage.rows(WRITES), stage.rows(RECEIPTS)) == ({}, {})
    assert stage.usage == {"files": 0, "bytes": 0}
    assert stage.create("a").admitted


def test_an_existing_file_is_replaced_only_on_request(stage):
    first = stage.create("a", "old")
    stage.settle(first)
    assert stage.create("a", "new").codes == ("files.already_exists",)
    replaced = stage.create("a", "newer", overwrite=True)
    [effect] = stage.kernel.open_effects()
    assert effect.payload["replaces"] == of("old", 0)["sha256"]
    assert stage.usage == {"files": 1, "bytes": 8}  # both, while it is being written
    stage.settle(replaced)
    assert stage.rows(RECEIPTS) == {"a": of("newer", replaced.seq)}
    assert stage.usage == {"files": 1, "bytes": 5}


def test_a_failed_replacement_keeps_the_old_receipt(stage):
    first = stage.create("a", "old")
    stage.settle(first)
    stage.settle(stage.create("a", "newer", overwrite=True), succeeded=False)
    assert stage.rows(RECEIPTS) == {"a": of("old", first.seq)}
    assert stage.usage == {"files": 1, "bytes": 3}


def test_one_path_has_one_writer_at_a_time(stage):
    first = stage.create("a")
    assert stage.create("a", overwrite=True).codes == ("files.write_pending",)
    stage.settle(first)
    assert stage.create("a", overwrite=True).admitted


def test_one_path_has_one_writer_within_a_batch(stage):
    twice = [stage.intent("ann", CREATE, filename="a", content=text) for text in "xy"]
    assert stage.kernel.decide(twice).codes == ("files.write_pending",)
    assert stage.usage == {"files": 0, "bytes": 0}


def test_replacing_a_file_changed_by_another_is_stale(stage):
    looked = stage.kernel.seq
    stage.settle(stage.create("a", agent="bob"))
    over = {"overwrite": True, "context_seq": looked}
    assert stage.create("a", "mine", **over).codes == ("stale_context",)
    assert stage.create("other", "mine", **over).admitted


def test_reading_requests_an_effect_and_changes_nothing(stage):
    before = stage.kernel.digest()
    assert stage.propose("ann", ANALYZE, path="a").admitted
    assert stage.propose("ann", INSPECT, zip_path="a.zip").admitted
    assert stage.kernel.digest() == before
    assert [(one.kind, dict(one.payload)) for one in stage.kernel.open_effects()] == [
        (ANALYZE, {"path": "a", "awaits": None}),
        (INSPECT, {"path": "a.zip", "awaits": None}),
    ]


def test_reading_a_file_being_written_waits_for_the_write(stage):
    batch = [
        stage.intent("ann", CREATE, filename="a", content="hi"),
        stage.intent("ann", ANALYZE, path="a"),
    ]
    assert stage.kernel.decide(batch).admitted
    assert stage.kernel.open_effects()[1].payload["awaits"] == of("hi", 0)["sha256"]


def test_the_number_of_files_is_bounded_including_pending_writes():
    stage = FilesStage(files_max=2)
    first = stage.create("a")
    stage.settle(first)
    assert stage.create("b").admitted
    full = stage.create("c")
    assert full.codes == ("files.too_many_files",)
    assert stage.create("a", "again", overwrite=True).admitted


def test_the_bytes_of_files_are_bounded_including_pending_writes():
    stage = FilesStage(bytes_max=10)
    first = stage.create("a", "12345")
    assert stage.create("b", "123456").codes == ("files.too_many_bytes",)
    assert stage.create("b", "é12").admitted
    assert stage.create("c", "12").codes == ("files.too_many_bytes",)
    stage.settle(first, succeeded=False)
    assert stage.create("c", "123456").admitted


def test_the_outcome_of_a_write_removed_by_the_operator_changes_nothing(stage):
    verdict = stage.create("a")
    stage.kernel.patch([(WRITES, "a", None, True)], "by hand")
    stage.settle(verdict)
    assert stage.rows(RECEIPTS) == {}


def test_without_an_executor_nothing_is_admitted():
    stage = WorldDriver(Files())
    for kind, payload in (
        (CREATE, {"filename": "a", "content": "x"}),
        (ANALYZE, {"path": "a"}),
        (INSPECT, {"zip_path": "a"}),
    ):
        assert stage.propose("ann", kind, **payload).codes == ("tool_unregistered",)


@pytest.mark.parametrize(
    "payload",
    [
        {"filename": "a"},
        {"content": "x"},
        {"filename": "a", "content": "x", "confirmed": True},
        {"filename": "a", "content": "x" * (64 * 1024 + 1)},
        {"filename": "a" * 1_025, "content": "x"},
        {"filename": "", "content": "x"},
        {"filename": "a", "content": "x", "overwrite": "yes"},
        {"filename": "a", "content": 7},
    ],
)
def test_a_payload_with_missing_or_unknown_fields_is_refused(stage, payload):
    verdict = stage.propose("ann", CREATE, **payload)
    assert not verdict.admitted
    assert verdict.refusals[0].stage == "structure"


def test_replacing_is_riskier_than_creating():
    kinds = {kind.name: kind for kind in Files().kinds}
    assert {name: kind.risk for name, kind in kinds.items()} == {
        CREATE: "low",
        ANALYZE: "read",
        INSPECT: "read",
    }
    kernel = Kernel(Files())
    assert risk_of_creating({"overwrite": True}, kernel.state) == "medium"
    assert risk_of_creating({"overwrite": False}, kernel.state) == "low"
    assert risk_of_creating({}, kernel.state) == "low"


def test_the_root_is_not_a_setting_and_not_logged():
    domain = Files(PurePosixPath("/srv/files"), files_max=3)
    assert domain.root == "/srv/files"
    assert domain.settings() == {"files_max": 3, "bytes_max": 64 * 1024 * 1024}
    assert Files(**domain.settings()).root is None


@pytest.mark.parametrize("root", ["", 7, b"/srv"])
def test_an_invalid_root_is_refused(root):
    with pytest.raises(ValueError, match="root must be the path of a folder"):
        Files(root)


@pytest.mark.parametrize("bound", [0, True, 1.5])
def test_an_invalid_bound_is_refused(bound):
    with pytest.raises(ValueError, match="files_max must be an int"):
        Files(files_max=bound)
    with pytest.raises(ValueError, match="bytes_max must be an int"):
        Files(bytes_max=bound)
