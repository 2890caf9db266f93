"""Builds property tests: a class whose methods hypothesis calls with traces."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from placet.testing import hash_order_property as hash_order
from placet.testing.errors import PropertyViolation
from placet.testing.properties import LAWS, Law
from placet.testing.trace import Factory, Trace
from placet.testing.trace_generator import Attributes, traces

EXAMPLES: Final = 50

_SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large)
"""A world is made for every life; that it takes milliseconds is no fault of the author's."""

_PHASES: Final = tuple(phase for phase in Phase if phase is not Phase.explain)
"""What is to be explained, the message explains."""


def domain_property_tests(
    domain_factory: Factory,
    *,
    intents: Mapping[str, SearchStrategy[Any]] | None = None,
    attributes: Attributes | None = None,
    examples: int = EXAMPLES,
    without: Collection[str] = (),
) -> type:
    """Make the tests of a domain: a class, one method for each law that says something about it.

        TestGarden = domain_property_tests(Garden)
        TestSmallGarden = domain_property_tests(partial(Garden, size=2), intents={"Plant": plants})

    Args:
        domain_factory: The class of the domain, or what makes one; called anew for every life.
        intents: Kind -> strategy of its payloads, if those allowed by its JSON Schema seldom pass
            its rule.
        attributes: Keywords of registrations: the same each time, or a strategy of them.
        examples: Number of traces for each property.
        without: Laws to leave out, by the names of their tests less `test_`.

    Raises:
        ValueError: `intents` or `without` has an unknown name.
    """
    names = [*(law.name for law in LAWS), hash_order.NAME]
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise ValueError(f"there is no law {unknown[0]!r}; there are {', '.join(names)}")
    drawn = traces(domain_factory, intents or {}, {} if attributes is None else attributes)
    domain = domain_factory()
    tests: dict[str, Any] = {
        f"test_{law.name}": _test_of(law, domain_factory, drawn, examples)
        for law in LAWS
        if law.applies(domain)
    }
    tests[f"test_{hash_order.NAME}"] = _test_of_hashes(domain_factory, drawn, examples)
    for name in without:
        tests.pop(f"test_{name}", None)
    doc = f"The laws that the domain {domain.name!r} keeps."
    return type("DomainLaws", (), {**tests, "__doc__": doc})


def _test_of(
    law: Law, factory: Factory, drawn: SearchStrategy[Trace], examples: int
) -> Callable[..., None]:
    @settings(max_examples=examples, deadline=None, suppress_health_check=_SLOW, phases=_PHASES)
    @given(life=drawn)
    def check(life: Trace) -> None:
        law.check(factory, life)

    def test(_self: object) -> None:
        try:
            check()
        except PropertyViolation as broken:
            # hypothesis makes the values small; a step or an intent it does not always leave out.
            law.check_smaller(factory, broken)

    return _named(test, law.name, law.sentence)


def _test_of_hashes(
    factory: Factory, drawn: SearchStrategy[Trace], examples: int
) -> Callable[..., None]:
    def test(_self: object) -> None:
        found: list[Trace] = []

        @settings(
            max_examples=examples,
            deadline=None,
            suppress_health_check=_SLOW,
            phases=[Phase.generate],
            database=None,
        )
        @given(life=drawn)
        def gather(life: Trace) -> None:
            found.append(life)

        gather()
        hash_order.check(factory, found)

    return _named(test, hash_order.NAME, hash_order.SENTENCE)


def _named(test: Callable[..., None], name: str, sentence: str) -> Callable[..., None]:
    test.__name__ = test.__qualname__ = f"test_{name}"
    test.__doc__ = sentence
    return test
