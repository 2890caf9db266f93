"""Laws that every domain keeps, as tests for the author of one. Needs the extra `testing`.

    from placet.testing import domain_property_tests
    TestGarden = domain_property_tests(Garden)        # in a test file; pytest collects it

Rules of the room: it stands beside the kernel and looks on. It imports the floors below, nothing of
the library imports it, and hypothesis is loaded with it and not before. A law is a function of a
domain's factory and of one life (`properties.py`); `trace.py` says what a life is,
`trace_generator.py` thinks of lives, `domain_property_tests.py` makes tests of both.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401  # asked for here, where the answer can be said
except ImportError as error:
    raise ImportError(
        f"placet.testing needs hypothesis, which cannot be imported ({error}); "
        "install placet[testing]"
    ) from error

from placet.testing.domain_property_tests import domain_property_tests
from placet.testing.errors import PropertyViolation

__all__ = ["PropertyViolation", "domain_property_tests"]
