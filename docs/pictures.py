"""Draws the pictures of the bundled models of columns from runs of their scenarios, seed 1.

    ./dev python docs/pictures.py      # writes docs/tutorials/images/NAME.svg

A picture is a function of the run alone: the same scenarios and rules give the same bytes.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from placet.kernel import Kernel
from placet.scenarios import Scenario
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.setup import prepare

FOLDER: Final = Path(__file__).parent / "tutorials" / "images"
SIZE: Final = 220
GAP: Final = 20
BLUE, ORANGE, GREEN, GRAY = "#2b5d9a", "#d98a12", "#4f9d80", "#62635c"


def seen(name: str, population: str, fields: Iterable[str], ticks: int) -> list[dict[str, Any]]:
    """Return the fields of a population before the first tick, and after each."""
    scenario = Scenario.load(name, overrides=["seed=1", f"ticks={ticks}"])
    runner = KernelRunner(prepare(scenario, store="memory://"))

    def look(kernel: Kernel) -> dict[str, Any]:
        members = kernel.population(population)
        return {field: members[field].copy() for field in fields}

    moments = [look(runner.world.kernel)]
    for _ in range(ticks):
        runner.tick()
        moments.append(look(runner.world.kernel))
    return moments


def picture(panels: list[tuple[str, str]], says: str) -> str:
    """Return panels of `SIZE`, each under its title, side by side in one drawing."""
    width = len(panels) * (SIZE + GAP) + GAP
    body = [
        f'<g transform="translate({GAP + number * (SIZE + GAP)} 34)">'
        f'<text y="-10">{title}</text>{drawn}</g>'
        for number, (title, drawn) in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIZE + 60}" '
        f'width="{width}" font-family="sans-serif" font-size="13" fill="{GRAY}">\n'
        f"<title>{says}</title>\n"
        f'<rect width="{width}" height="{SIZE + 60}" fill="#fff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def frame(inside: str) -> str:
    """Return a drawing in a square frame."""
    return f'<rect width="{SIZE}" height="{SIZE}" fill="#f5f4f0"/>{inside}'


def flock() -> str:
    """Draw the birds as strokes along their headings at three ticks."""
    moments = seen("flock", "birds", ("position", "heading"), 200)

    def birds(at: dict[str, Any]) -> str:
        points = at["position"] * SIZE / 100
        strokes = at["heading"] * 7
        path = "".join(
            f"M{x:.1f} {SIZE - y:.1f}l{-dx:.1f} {dy:.1f}"
            for (x, y), (dx, dy) in zip(points.tolist(), strokes.tolist(), strict=True)
        )
        drawn = f'<path d="{path}" stroke="{GREEN}" stroke-width="1.5" fill="none"/>'
        return frame(f'<svg width="{SIZE}" height="{SIZE}">{drawn}</svg>')

    panels = [(f"tick {tick}", birds(moments[tick])) for tick in (0, 50, 200)]
    return picture(panels, "200 birds at ticks 0, 50 and 200: strokes trail behind the birds")


def segregation() -> str:
    """Draw the people as cells in the color of their group at three ticks."""
    moments = seen("segregation", "people", ("cell", "group"), 100)
    side, wide = 20, SIZE / 20

    def people(at: dict[str, Any]) -> str:
        drawn = ""
        for group, color in enumerate((BLUE, ORANGE)):
            cells = np.sort(at["cell"][at["group"] == group]).tolist()
            path = "".join(
                f"M{cell % side * wide:g} {SIZE - (cell // side + 1) * wide:g}h10v10h-10"
                for cell in cells
            )
            drawn += f'<path d="{path}" fill="{color}"/>'
        return frame(drawn)

    panels = [(f"tick {tick}", people(moments[tick])) for tick in (0, 5, 100)]
    return picture(panels, "320 people of two groups at ticks 0, 5 and 100")


def wealth() -> str:
    """Draw how many people have how many coins at three ticks."""
    moments = seen("wealth", "people", ("coins",), 200)
    most = 8

    def bars(at: dict[str, Any]) -> str:
        counts = np.bincount(np.minimum(at["coins"], most), minlength=most + 1).tolist()
        wide = (SIZE - 10) / (most + 1)
        drawn = ""
        for coins, count in enumerate(counts):
            left, high = 5 + coins * wide, count * (SIZE - 30) / 100
            drawn += f'<rect x="{left:.1f}" y="{SIZE - high:.1f}" width="{wide - 3:.1f}" '
            drawn += f'height="{high:.1f}" fill="{GREEN}"/>'
            label = f"{coins}+" if coins == most else str(coins)
            drawn += f'<text x="{left + 6:.1f}" y="{SIZE + 16}" font-size="11">{label}</text>'
            if count:
                drawn += f'<text x="{left + 3:.1f}" y="{SIZE - high - 4:.1f}" font-size="11">'
                drawn += f"{count}</text>"
        return frame(drawn)

    panels = [(f"tick {tick}: people by coins", bars(moments[tick])) for tick in (0, 20, 200)]
    return picture(panels, "100 people by the number of their coins at ticks 0, 20 and 200")


def sir() -> str:
    """Draw the number of people in each state along the run, and the people at three ticks."""
    moments = seen("sir", "people", ("state",), 100)
    counts = np.array([np.bincount(at["state"], minlength=3) for at in moments])
    peak = int(counts[:, 1].argmax())
    colors = (BLUE, ORANGE, GREEN)

    def curves() -> str:
        drawn = ""
        for state, color in enumerate(colors):
            points = " ".join(
                f"{tick * SIZE / 100:.1f},{SIZE - count * SIZE / 500:.1f}"
                for tick, count in enumerate(counts[:, state].tolist())
            )
            drawn += f'<polyline points="{points}" stroke="{color}" stroke-width="2" fill="none"/>'
        for tick in (0, 50, 100):
            drawn += f'<text x="{tick * 2}" y="{SIZE + 16}" font-size="11">{tick}</text>'
        return frame(drawn)

    def people(at: dict[str, Any]) -> str:
        side = 23
        wide = SIZE / side
        drawn = ""
        for state, color in enumerate(colors):
            path = "".join(
                f"M{number % side * wide:.1f} {number // side * wide:.1f}h8v8h-8"
                for number in np.flatnonzero(at["state"] == state).tolist()
            )
            drawn += f'<path d="{path}" fill="{color}"/>'
        return frame(drawn)

    return picture(
        [
            ("500 people by state", curves()),
            (f"tick {peak}: most infectious", people(moments[peak])),
            ("tick 100", people(moments[100])),
        ],
        "Susceptible (blue), infectious (orange) and recovered (green) people along a run",
    )


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "flock": flock,
    "segregation": segregation,
    "sir": sir,
    "wealth": wealth,
}


def main() -> None:
    """Write every picture."""
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
