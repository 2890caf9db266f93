"""Starts a program of the tests on Ray, in a network namespace that has only loopback."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

ROOT = Path(__file__).parents[2]


def in_namespace(folder):
    """Return the start of a command in a namespace, and its environment; skip without `unshare`."""
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if (
        not (shutil.which("unshare") and shutil.which("ip"))
        or subprocess.run([*unshare, "true"], check=False).returncode
    ):
        pytest.skip("no network namespace can be made here")
    home = folder / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "RAY_TMPDIR": mkdtemp(prefix="placet-", dir="/tmp"),  # sockets have short paths
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "PYTHONPATH": str(ROOT),
    }
    return [*unshare, "sh", "-c", 'ip link set lo up; exec "$@"', "sh"], environment


@contextmanager
def ray_program(module, folder):
    """Yield a function that sends a program a line, and returns the JSON of its answer."""
    command, environment = in_namespace(folder)
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [*command, sys.executable, "-m", module, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
    questions, answers = process.stdin, process.stdout
    assert questions is not None
    assert answers is not None

    def answer():
        for line in answers:
            if line.startswith(("{", '"')):
                return json.loads(line)
        raise AssertionError((folder / "stderr").read_text()[-3000:])

    def ask(name):
        questions.write(f"{name}\n")
        questions.flush()
        return answer()

    assert answer() == "ready"
    yield ask
    questions.close()
    process.wait(60)
    answers.close()
    shutil.rmtree(environment["RAY_TMPDIR"], ignore_errors=True)
