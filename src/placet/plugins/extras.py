"""The extras of placet: which of them brings a module, and where the plug-ins beside it are."""

import re
from collections import Counter
from typing import Final

_BROUGHT_BY: Final = {
    "gymnasium": "pettingzoo",
    "pydantic_ai": "pydantic-ai-slim",
    "pygame": "pygame-ce",
}
"""Module -> the distribution with which an extra brings it, where the names differ."""

_OF_EXTRA: Final = re.compile(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")


def installable() -> dict[str, str]:
    """Return how to install each plug-in of placet's own repository, by the plug-in's name.

    The extras of placet name the distributions beside it.
    """
    return {
        extra: f"pip install ./plugins/{distribution}"
        for distribution, extra in _requirements()
        if distribution.startswith("placet-")
    }


def extra_of(module: str) -> str | None:
    """Return the extra of placet that brings a module, such as `arrays` for numpy.

    Args:
        module: Name of the module, without dots.

    Returns:
        The extra; of several the one with the fewest distributions. None if no extra brings the
        module.
    """
    wanted = _BROUGHT_BY.get(module, module.replace("_", "-"))
    requirements = _requirements()
    sizes = Counter(extra for _, extra in requirements)
    found = [extra for distribution, extra in requirements if distribution == wanted]
    return min(found, key=lambda extra: sizes[extra], default=None)


def _requirements() -> list[tuple[str, str]]:
    """Return each distribution that an extra needs, with the extra."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415  # 15 ms, rarely

    try:
        needed = requires("placet") or []
    except PackageNotFoundError:  # a source tree on the path
        return []
    return [(match[1], match[2]) for match in map(_OF_EXTRA.match, needed) if match]
