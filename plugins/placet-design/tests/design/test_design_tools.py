"""The kinds of a design as the tools of a model."""

from placet.agents.proposal.tools import definitions
from placet_design import Design


def test_values_that_the_domain_knows_are_enumerated():
    tools = {tool.name: tool.schema["properties"] for tool in definitions(domain=Design())}
    assert "hull.beam" in tools["design__set"]["path"]["enum"]
    assert "hull.beam" not in tools["design__assume"]["path"]["enum"]
    assert "json" in tools["design__export"]["format"]["enum"]
    assert "phases" in tools["design__run_phases"]
    assert tools["design__run_phases"]["phases"]["anyOf"][0]["items"]["enum"]
