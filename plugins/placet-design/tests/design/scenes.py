"""The scenes of designs for the noninterference law (`tests/noninterference/scenes.py`)."""

from collections.abc import Mapping
from functools import partial

from placet.testing.trace import Proposal, Propose
from placet_design import Design
from placet_design.refinable_fields import REFINABLE_SCHEMA
from tests.noninterference.drawn import Payload, Scene, some

PATHS = [*sorted(REFINABLE_SCHEMA)[:3], "no.such.path"]
DESIGN_PAYLOADS: Mapping[str, Payload] = {
    "design.set": partial(some, path=PATHS, value=[1, 2, 3.5]),
    "design.increase": partial(some, path=PATHS, amount=[..., 1, 2]),
    "design.lock": partial(some, path=PATHS, for_s=[..., 1.0]),
    "design.unlock": partial(some, path=PATHS),
    "design.create": partial(some, name=["a", "b"]),
    "design.undo": lambda _: {},
    "design.redo": lambda _: {},
    "design.noop": lambda _: {},
    "design.run_phases": lambda _: {},
    "design.set_access": partial(
        some, owner=["bob", "cyd"], editors=[[], ["cyd"], ["ann"]], readers=[[], [], ["ann"]]
    ),
}
CLOSED_DESIGN = Propose(
    0.0,
    ((Proposal("bob", "design.set_access", {"owner": "bob", "editors": ["cyd"], "readers": []}),),),
)

SCENES: Mapping[str, Scene] = {
    "design, open": Scene(Design, DESIGN_PAYLOADS),
    "design, closed to the observer": Scene(
        Design,
        DESIGN_PAYLOADS,
        partial(some, role=[..., "designer", "operator"]),
        opening=(CLOSED_DESIGN,),
    ),
}
