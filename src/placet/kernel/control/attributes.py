"""The attributes of a registration, with the names that domains look for.

A domain defines its attributes by the code of `on_register` alone. So a misspelled one is found
when the hooks have run: no domain read it, and one looked for a name that is almost the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from placet.kernel.plugin.domain import Domain, overrides
from placet.schemas.codec import Json
from placet.schemas.errors import ValidationError
from placet.schemas.name_suggestions import SETTINGS_MAX, nearest

_ALMOST: Final = 0.65


class Attributes(dict[str, Json]):
    """The attributes of an agent as a hook receives them, which notes the names that are read.

    Args:
        values: The attributes.
        sought: The names that hooks look for; filled here. A hook that reads all of them, such as
            by a loop, looks for each.
    """

    __slots__ = ("_sought",)

    def __init__(self, values: dict[str, Json], sought: set[str]) -> None:
        super().__init__(values)
        self._sought = sought

    def __getitem__(self, name: str) -> Json:
        self._sought.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._sought.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as of a dict
        """Return an attribute, or else the default."""
        self._sought.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:  # noqa: ANN401  # as of a dict
        """Remove an attribute and return it, or else the default."""
        self._sought.add(name)
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:
        self._sought.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:  # noqa: ANN401  # a view of a dict, whose class is not public
        """Return the names."""
        self._sought.update(super().keys())
        return super().keys()

    def items(self) -> Any:  # noqa: ANN401  # a view of a dict, whose class is not public
        """Return the names and the values."""
        self._sought.update(super().keys())
        return super().items()

    def copy(self) -> dict[str, Json]:
        """Return a plain copy."""
        return dict(self)


def require_read(given: dict[str, Json], sought: set[str], domains: Iterable[Domain]) -> None:
    """Check that no attribute is a misspelled name of one that a domain looked for.

    Args:
        given: The attributes.
        sought: The names that the hooks looked for.
        domains: The domains of the agent.

    Raises:
        ValidationError: An attribute is misspelled, or no hook reads any.
    """
    for name in given:
        if name in sought:
            continue
        if not any(overrides(domain, "on_register") for domain in domains):
            raise ValidationError(
                f"the attribute {name!r} would have no effect: no domain of this world has "
                "`on_register`, which reads attributes"
            )
        near = nearest(name, sorted(sought), 1, similar=_ALMOST, compared_max=SETTINGS_MAX)
        if near:
            raise ValidationError(
                f"no domain reads the attribute {name!r}; did you mean {near[0]!r}?"
            )
