"""The example of a user's own domain: it runs as a program, and as a domain."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from placet.kernel import Kernel

EXAMPLE = Path(__file__).parents[2] / "examples" / "counter.py"


def counter_module():
    spec = spec_from_file_location("counter", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_stays_within_forty_lines():
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 40


def test_the_example_runs_as_a_program():
    outcome = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True
    )
    *verdicts, last = outcome.stdout.splitlines()
    assert ["admitted" in verdict for verdict in verdicts] == [True, True, False]
    assert "counter.full" in verdicts[2]
    assert last.startswith("100 ")


def test_its_domain_refuses_amounts_that_are_not_positive():
    kernel = Kernel(counter_module().Counter())
    kernel.register_agent("ann")
    intent = {
        "kind": "Add",
        "payload": {"to": "visits", "amount": 0},
        "agent_id": "ann",
        "req_id": "r1",
        "context_seq": 0,
        "priority": 0,
        "schema_version": "1.0.0",
    }
    assert kernel.decide([intent]).codes == ("payload_invalid",)
