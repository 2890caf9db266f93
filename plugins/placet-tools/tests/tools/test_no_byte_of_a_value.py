"""No byte of a secret, and none of erased personal data, is in anything that placet writes."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

from tests.tools.mailroom import domain
from tests.tools.shop import QUIET

from placet.domains.approvals import Approvals
from placet_tools import Gate
from tests.cli.command_line import PLACET
from tests.server.served import serving

ROOT = Path(__file__).parents[4]
PATH = f"{Path(__file__).parents[2]}:{ROOT}"
OF_TOOLS = ("--domain", "tests.tools.mailroom:domain")
COMMANDS = [
    ("log", "mail.db", "--json"),
    ("effects", "mail.db", "--json"),
    ("effects", "mail.db", "--state", "dead", "--json"),
    ("verify", "mail.db", *OF_TOOLS),
    ("replay", "mail.db", "--json"),
    ("fork", "mail.db", "fork.db"),
    ("verify", "fork.db", *OF_TOOLS),
    ("pack", "mail.db", "mail.pack"),
    ("export", "mail.db", "--to", "tables"),
    ("export", "mail.db", "--to", "intents.csv"),
    ("report", "mail.db", "--to", "report.html"),
]
PAGES = ("state", "events", "effects", "agents", "approvals", "metrics", "/metrics", "/", "history")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    environment = {"PYTHONPATH": PATH, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)


async def test_no_byte_of_a_secret_or_of_erased_data_is_written(log):
    folder, values = log.parent, [token_hex(12), token_hex(12)]
    lived = run(folder, sys.executable, "-m", "tests.tools.mailroom", f"sqlite:///{log}", *values)
    assert lived.returncode == 0, lived.stderr.decode()
    assert lived.stdout
    written = {"stdout": lived.stdout, "stderr": lived.stderr}
    for command in COMMANDS:
        done = run(folder, *PLACET, *command)
        assert done.returncode == 0, (command, done.stderr.decode())
        written[" ".join(command)] = done.stdout + done.stderr
    req_ids = re.findall(rb'"req_id": ?"([^"]*)"', written["log mail.db --json"])
    assert len(req_ids) > 10
    for req_id in sorted(set(req_ids))[:12]:
        done = run(folder, *PLACET, "explain", "mail.db", "agent", req_id.decode(), *OF_TOOLS)
        written[f"explain {req_id!r}"] = done.stdout + done.stderr
    files = [file for file in folder.rglob("*") if file.is_file()]
    written |= {str(file.relative_to(folder)): file.read_bytes() for file in files}
    names = " ".join(written)
    for part in ("mail.db.keys.backup", "mail.db.parts", "mail.db.snapshots/", "fork.db", "tables"):
        assert part in names
    async with serving([domain, Approvals()], agents=(), store=f"sqlite:///{log}") as served:
        for page in PAGES:
            written[f"page {page}"] = (await served.get(page)).content
    assert b"erased" in written["page state"]
    assert [
        (name, which)
        for name, content in written.items()
        for which, value in zip(("secret", "person"), values, strict=True)
        if value.encode() in content or value.encode("utf-16-le") in content
    ] == []


async def test_a_destroyed_key_is_in_no_file(log, room):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        await gate.call("mail", order="A7", to="bob@example.org")
        with sqlite3.connect(f"{log}.keys") as keys:
            (key,) = keys.execute("SELECT key FROM subjects").fetchone()
        assert key in log.with_name(f"{log.name}.keys").read_bytes()
        await gate.erase("A7")
        pieces = [key[start : start + 8] for start in range(0, len(key), 8)]
        files = [file.read_bytes() for file in log.parent.iterdir()]
        assert [piece for piece in pieces for content in files if piece in content] == []
