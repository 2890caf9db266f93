"""`placet scenarios`: the bundled scenarios."""

from placet.cli.terminal import AsJson, TextTable, number, say_json, say_lines


def scenarios(*, as_json: AsJson = False) -> None:
    """List the bundled scenarios.

    `placet run NAME` runs one; a scenario of your own is a TOML file with the same keys.
    """
    # Here, because scenarios and what checks them are 60 ms that the help need not pay.
    from placet.scenarios import Scenario, bundled  # noqa: PLC0415  # see above

    loaded = [Scenario.load(name) for name in bundled()]
    if as_json:
        say_json(
            [
                {
                    "name": scenario.name,
                    "title": scenario.title,
                    "domain": scenario.domain,
                    "agents": scenario.agents_count,
                    "ticks": scenario.ticks,
                    "clock": scenario.clock,
                }
                for scenario in loaded
            ]
        )
        return
    rows = [
        (s.name, s.domain, number(s.agents_count), number(s.ticks), s.title or "-") for s in loaded
    ]
    say_lines(
        [
            TextTable(rows, ("scenario", "domain", "agents", "ticks", "title"), indent=""),
            "",
            "To run one: placet run town. Every key of a scenario: docs/reference/scenarios.md",
        ]
    )
