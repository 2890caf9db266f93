"""`placet scenarios`: the bundled scenarios."""

from placet.cli.terminal import Output, TextTable, number, with_json


@with_json
def scenarios() -> Output:
    """List the bundled scenarios.

    `placet run NAME` runs one; a scenario of your own is a TOML file with the same keys.
    """
    # Here, because scenarios and what checks them are 60 ms that the help need not pay.
    from placet.scenarios import Scenario, bundled  # noqa: PLC0415  # see above

    loaded = [Scenario.load(name) for name in bundled()]
    value = [
        {
            "name": scenario.name,
            "title": scenario.title,
            "domain": scenario.domain,
            "agents": scenario.agents_count + scenario.members_count,
            "ticks": scenario.ticks,
            "clock": scenario.clock,
        }
        for scenario in loaded
    ]
    rows = [
        (
            s.name,
            s.domain.rpartition(":")[2],
            number(s.agents_count + s.members_count),
            number(s.ticks),
            s.title or "-",
        )
        for s in loaded
    ]
    table = TextTable(rows, ("scenario", "domain", "agents", "ticks", "title"), indent="")
    hint = "To run one: placet run town. Every key of a scenario: docs/reference/scenarios.md"
    return Output(value, [table, "", hint])
