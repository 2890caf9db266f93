"""The command line with lines on its standard input, as the front ends of placet are tested."""

from tests.frontends.conftest import placet

__all__ = ["placet"]
