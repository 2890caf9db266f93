"""Builds property tests: a class whose methods hypothesis calls with traces."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from placet.schemas.keywords import explain_keywords
from placet.testing import hash_order_property as hash_order
from placet.testing.errors import PropertyViolation
from placet.testing.properties import PROPERTIES, Property
from placet.testing.trace import Factory, Trace
from placet.testing.trace_generator import Attributes, traces

EXAMPLES: Final = 50

_SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large)
"""Every trace makes a world, which takes milliseconds, so slow examples are expected."""

_PHASES: Final = tuple(phase for phase in Phase if phase is not Phase.explain)
"""Without the phase `explain`, because the message of a violation explains it."""


@explain_keywords
def domain_property_tests(
    domain_factory: Factory,
    *,
    intents: Mapping[str, SearchStrategy[Any]] | None = None,
    attributes: Attributes | None = None,
    examples: int = EXAMPLES,
    without: Collection[str] = (),
) -> type:
    """Return a test class for a domain, with one method for each property that applies to it.

        TestGarden = domain_property_tests(Garden)
        TestSmallGarden = domain_property_tests(partial(Garden, size=2), intents={"Plant": plants})

    Args:
        domain_factory: The class of the domain, or a factory; called once for every trace.
        intents: Kind -> strategy of its payloads, if payloads from its JSON Schema seldom pass its
            rule.
        attributes: Keywords of every registration, or a strategy of them.
        examples: Number of traces for each property.
        without: Properties to omit, by the names of their tests without `test_`.

    Raises:
        ValueError: `intents` or `without` has an unknown name.
    """
    names = [*(prop.name for prop in PROPERTIES), hash_order.NAME]
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise ValueError(f"there is no property {unknown[0]!r}; there are {', '.join(names)}")
    drawn = traces(domain_factory, intents or {}, {} if attributes is None else attributes)
    domain = domain_factory()
    tests: dict[str, Any] = {
        f"test_{prop.name}": _test_of(prop, domain_factory, drawn, examples)
        for prop in PROPERTIES
        if prop.applies(domain)
    }
    tests[f"test_{hash_order.NAME}"] = _test_of_hashes(domain_factory, drawn, examples)
    for name in without:
        tests.pop(f"test_{name}", None)
    doc = f"The properties of the domain {domain.name!r}."
    return type("DomainProperties", (), {**tests, "__doc__": doc})


def _test_of(
    prop: Property, factory: Factory, drawn: SearchStrategy[Trace], examples: int
) -> Callable[..., None]:
    @settings(max_examples=examples, deadline=None, suppress_health_check=_SLOW, phases=_PHASES)
    @given(trace=drawn)
    def check(trace: Trace) -> None:
        prop.check(factory, trace)

    def test(_self: object) -> None:
        try:
            check()
        except PropertyViolation as broken:
            # hypothesis shrinks values, but does not always drop a step or an intent.
            prop.check_smaller(factory, broken)

    return _named(test, prop.name, prop.sentence)


def _test_of_hashes(
    factory: Factory, drawn: SearchStrategy[Trace], examples: int
) -> Callable[..., None]:
    def test(_self: object) -> None:
        gathered: list[Trace] = []

        @settings(
            max_examples=examples,
            deadline=None,
            suppress_health_check=_SLOW,
            phases=[Phase.generate],
            database=None,
        )
        @given(trace=drawn)
        def gather(trace: Trace) -> None:
            gathered.append(trace)

        gather()
        hash_order.check(factory, gathered)

    return _named(test, hash_order.NAME, hash_order.SENTENCE)


def _named(test: Callable[..., None], name: str, sentence: str) -> Callable[..., None]:
    test.__name__ = test.__qualname__ = f"test_{name}"
    test.__doc__ = sentence
    return test
