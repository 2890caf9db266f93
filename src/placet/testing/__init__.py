"""Property tests of domains and contract suites of ports, for authors. Needs the extra `testing`.

    from placet.testing import domain_property_tests
    TestGarden = domain_property_tests(Garden)        # in a test file; pytest collects it

`check_columns(Flock())` holds kinds with a rule of rows to the laws of column batches.
`placet.testing.contracts` has the suites of policies, executors and stores.

The package observes the kernel from outside. It imports the layers below, no other package imports
it, and hypothesis is loaded with it only. A property is a function of a domain's factory and of one
trace (`properties.py`); `trace.py` defines a trace, `trace_generator.py` generates traces,
`domain_property_tests.py` makes tests of both.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401  # checked here, for a message that names the extra
except ImportError as error:
    raise ImportError(
        f"placet.testing needs hypothesis, which cannot be imported ({error}); "
        "pip install '.[testing]' in a clone of placet"
    ) from error

from placet.testing.column_laws import check_columns
from placet.testing.domain_property_tests import domain_property_tests
from placet.testing.errors import ColumnViolation, PropertyViolation

__all__ = ["ColumnViolation", "PropertyViolation", "check_columns", "domain_property_tests"]
