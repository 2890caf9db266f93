"""The domains that are installed: placet's own, and those of the distributions beside it.

A test of placet that holds for every domain runs over these, and so names no application.
"""

from placet.domains.session import Sessions
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import domain_names, find_domain, make_domain

NAMES = domain_names()


def served(name: str) -> list[Domain]:
    """Make a domain as `placet serve --domain NAME --sessions` does."""
    domain = make_domain(name, find_domain(name))
    return [domain] if name == "session" else [domain, Sessions()]


def factories() -> list[type[Domain]]:
    """Return the classes of all installed domains, in the order of their names."""
    return [cls for cls in map(find_domain, NAMES) if isinstance(cls, type)]
