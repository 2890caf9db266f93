"""The lab's rules, compiled once: a child is so short that compiling them would take most of it."""

from collections.abc import Sequence
from typing import Final

from placet.kernel import kernel
from placet.kernel.plugin.registry import Registry
from tests.kernel.domains import Lab

_REGISTRY: Final = Registry([Lab()])


def use_compiled_lab(faults: Sequence[str] = ()) -> None:
    """Give every kernel of this process the compiled rules of the lab. For a child process only.

    Args:
        faults: Hooks of the lab that raise.
    """
    (lab,) = _REGISTRY.domains
    assert isinstance(lab, Lab)
    lab.faults.update(faults)
    vars(kernel)["Registry"] = lambda domains, *, has_leases: _REGISTRY
