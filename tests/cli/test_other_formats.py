"""A log of another format: each command says which it has, which is known, and what to do."""

import msgspec
import pytest

from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.url import open_event_log
from tests.kernel.log.test_verify import rechained, replaced

COMMANDS = (
    *("explain {} folk_1 r1", "log {}", "log {} --json", "verify {}", "verify {} --salvage new.db"),
    *("replay {}", "export {} --to tables", "fork {} new.db --at-tick 1", "run --resume {}"),
    *("compact {}", "report {}", "diff {} {}", "bisect {} {}", "compare {} {}", "pack {} packed"),
    *("effects {}", "serve --store {} --port 0", "play {} --port 0"),
)


def of_old_format(log):
    return rechained(log, 0, replaced(format_version=1))


def of_new_layout(log):
    """Return the log with a header of a later release, whose items this one cannot read."""
    items = msgspec.msgpack.decode(log[0])
    place = 1 + type(decode_record(log[0])).__struct_fields__.index("format_version")
    items[place:] = [3, {"world": "town"}]
    return [msgspec.msgpack.encode(items), *log[1:]]


FORMATS = {
    of_old_format: "format 1, and this release reads format 2; read or export it with the release",
    of_new_layout: "format 3, and this release reads format 2; update placet",
}


@pytest.fixture(scope="module", params=FORMATS, ids=lambda other: other.__name__)
def other(request, lived_town, tmp_path_factory):
    """The store of a log of another format, and the text that each command prints about it."""
    log = [data for _, data in open_event_log(f"sqlite:///{lived_town[0] / 'town.db'}").read()]
    store = tmp_path_factory.mktemp("other") / "other.db"
    new = open_event_log(f"sqlite:///{store}")
    epoch = new.open()
    new.append(LogAppend(0, 0, decode_record(log[-1]).seq, request.param(log)), epoch)
    new.close()
    return store, FORMATS[request.param]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_of_another_format_is_one_line(placet, other, command):
    store, text = other
    outcome = placet(*command.replace("{}", str(store)).split())
    assert outcome.code == 1
    assert outcome.err == outcome.err.splitlines()[0] + "\n"
    assert f"the log is of {text}" in outcome.err
