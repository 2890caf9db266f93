"""`Rendering`: how an environment is drawn, as an array or in a window (extra `render`)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from placet.envs.map_marks import MapMark, MapMarks
from placet.envs.map_picture import Frame, MapCells, Pixels, draw_picture, pixels_of
from placet.history.timeline.fold import played_of
from placet.kernel import Kernel
from placet.scenarios.portrayals import table_problems, with_networks
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.portrayal import Portrayal, Portrayals

if TYPE_CHECKING:
    import pygame

RENDER_MODES: Final = ("human", "rgb_array")
RENDER_FPS: Final = 10
"""Steps a second that a window shows at most, and that gymnasium saves in a second of a film."""


def require_render_mode(mode: object) -> None:
    """Check that a mode exists, and that pygame is there to draw in it.

    Raises:
        ValueError: It does not exist.
        ImportError: pygame is not installed.
    """
    if mode is None:
        return
    if mode not in RENDER_MODES:
        raise ValueError(f"render_mode must be 'human', 'rgb_array' or None, got {mode!r}")
    try:
        import pygame  # noqa: F401, PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise ImportError(
            f"render_mode={mode!r} needs the extra 'render': pip install '.[render]' in a clone of "
            "placet"
        ) from error


def checked_portrayals(portrayals: object, kernel: Kernel) -> Portrayals:
    """Check the form of portrayals, and the fields of those of tables; find their networks.

    Raises:
        ValueError: They are no mapping to `Portrayal`, a table has no such field, or there is no
            such network.
    """
    if not isinstance(portrayals, Mapping) or not all(
        isinstance(one, Portrayal) for one in portrayals.values()
    ):
        raise ValueError(
            "portrayal must map collections or tables to placet.scenarios.Portrayal, such as "
            f'{{"world.agents": Portrayal(color="team")}}, got {portrayals!r:.80}'
        )
    found = with_networks("portrayal", portrayals)
    for name, key, problem in table_problems(found, kernel.registry.tables.values()):
        raise ValueError(f"portrayal of {name}: {key}: {problem}")
    return found


class MapGround(Protocol):
    """The ground of a drawn map, under entities and rows; a base of the ports of adapters.

    Attributes:
        map_frame: `(left, bottom, right, top)` that a drawn map shows at least; None shows the
            entities that exist.
        map_cell: Side of the cells that a drawn map has lines for; positions are their centers.
            None draws no lines.
        map_goals: Positions that a drawn map shows as goals.
        map_blocked: Positions that a drawn map shows as blocked cells.
    """

    map_frame: Frame | None = None
    map_cell: float | None = None
    map_goals: Sequence[tuple[float, float]] = ()
    map_blocked: Sequence[tuple[float, float]] = ()


def rendering_of(
    mode: str | None,
    ground: MapGround,
    agents: Sequence[str],
    portrayal: Portrayals,
    kernel: Kernel,
) -> "Rendering | None":
    """Return the rendering of an environment; None where its mode draws nothing.

    Raises:
        ValueError: The mode or a portrayal is wrong.
        ImportError: pygame is not installed.
    """
    require_render_mode(mode)
    portrayals = checked_portrayals(portrayal, kernel)
    if mode is None:
        return None
    cells = MapCells(ground.map_cell, ground.map_goals, ground.map_blocked)
    return Rendering(mode, agents, portrayals, cells, ground.map_frame)


class Rendering:
    """Draws the pictures of one environment, one after the other.

    Args:
        mode: `human` or `rgb_array`.
        agents: The agents, which have a color each.
        portrayals: How collections and tables are drawn.
        cells: The ground under the marks.
        frame: The extent that a picture shows at least; it widens to all places.
    """

    def __init__(
        self,
        mode: str,
        agents: Sequence[str],
        portrayals: Portrayals,
        cells: MapCells,
        frame: Frame | None,
    ) -> None:
        self._mode, self._portrayals, self._cells = mode, dict(portrayals), cells
        self._marks = MapMarks(agents, self._portrayals)
        self._frame = frame
        self._has_warned = False
        self._window: _Window | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_window": None}

    def begin(self, kernel: Kernel) -> None:
        """Check that the world of an episode can be drawn; warn of portrayals that show nothing.

        A warning is given once: a later step may make the field.

        Raises:
            ValueError: The world has entities, and none of them has a place.
        """
        marks, _, unknown = self._marks.of(played_of(kernel.tree, kernel.ledger))
        self._widen(marks)
        if self._frame is None and any(kernel.state.values()):
            raise ValueError(_without_places(self._mode, kernel))
        if not self._has_warned:
            self._has_warned = True
            self._warn(kernel, unknown)

    def render(self, kernel: Kernel, caption: str) -> Pixels | None:
        """Draw a world: return the picture in mode `rgb_array`, show it in mode `human`.

        Raises:
            RuntimeError: No window can be opened.
        """
        picture = self._picture(kernel, caption)
        if self._mode == "rgb_array":
            return pixels_of(picture)
        if self._window is None:
            self._window = _Window(f"placet: {kernel.registry.domains[0].name}")
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _picture(self, kernel: Kernel, caption: str) -> "pygame.Surface":
        marks, legend, _ = self._marks.of(played_of(kernel.tree, kernel.ledger))
        self._widen(marks)
        frame = self._frame or (0.0, 0.0, 1.0, 1.0)
        return draw_picture(marks, self._cells, frame, legend, caption)

    def _widen(self, marks: Sequence[MapMark]) -> None:
        places = [(mark.x, mark.y) for mark in marks] + [*self._cells.places]
        if self._frame is not None:
            places += [self._frame[:2], self._frame[2:]]
        if places:
            xs, ys = zip(*places, strict=True)
            self._frame = min(xs), min(ys), max(xs), max(ys)

    def _warn(self, kernel: Kernel, unknown: Sequence[str]) -> None:
        known = {*kernel.declared, *kernel.state}
        missing = [
            f"portrayal of {name}: no such collection; {did_you_mean(name, sorted(known))}"
            for name in self._portrayals
            if name not in known
        ]
        for problem in [*missing, *unknown]:
            warnings.warn(problem, UserWarning, stacklevel=4)


def captions_of(
    rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]
) -> Sequence[str]:
    """Return the reward or refusal of each agent in a step; refused agents come first."""
    refused = [agent for agent in rewards if "code" in infos[agent]]
    others = [agent for agent in rewards if "code" not in infos[agent]]
    return [
        *(f"{agent} {rewards[agent]:+.3g} refused: {infos[agent]['code']}" for agent in refused),
        *(f"{agent} {rewards[agent]:+.3g}" for agent in others),
    ]


def _without_places(mode: str, kernel: Kernel) -> str:
    names = ", ".join(sorted(name for name, rows in kernel.state.items() if rows))
    return (
        f"render_mode={mode!r} draws entities with a place, and none of {names} has one; give "
        "entities a field 'position' of two or three numbers, rows of a table a field 'position', "
        "'x' and 'y' or 'cell', or the adapter a map_frame; or take render_mode=None"
    )


class _Window:
    """A window of pygame; once its user has closed it, it shows nothing."""

    def __init__(self, title: str) -> None:
        import pygame  # noqa: PLC0415  # an extra

        self._pygame = pygame
        self._title = title
        self._clock = pygame.time.Clock()
        self._surface: pygame.Surface | None = None
        self._is_closed = False

    def show(self, picture: "pygame.Surface") -> None:
        """Show a picture, after the time that `RENDER_FPS` leaves for the one before."""
        if self._is_closed:
            return
        if self._surface is None:
            self._surface = self._opened(picture.get_size())
        self._surface.blit(picture, (0, 0))
        self._pygame.display.flip()
        self._clock.tick(RENDER_FPS)
        if any(event.type == self._pygame.QUIT for event in self._pygame.event.get()):
            self.close()

    def close(self) -> None:
        """Close the window."""
        self._is_closed = True
        if self._surface is not None:
            self._surface = None
            self._pygame.display.quit()

    def _opened(self, size: tuple[int, int]) -> "pygame.Surface":
        try:
            self._pygame.display.init()
            surface = self._pygame.display.set_mode(size)
        except self._pygame.error as error:
            raise RuntimeError(
                f"render_mode='human' cannot open a window ({error}); on a machine without a "
                "display take render_mode='rgb_array', or set SDL_VIDEODRIVER=dummy"
            ) from error
        self._pygame.display.set_caption(self._title)
        return surface
