"""The settings of one design world, in the form that its rules use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from placet.schemas.codec import Json, canonical
from placet.schemas.identity import is_identity
from placet_design.refinable_fields import REFINABLE_SCHEMA, RangePolicy, RefinableField
from placet_design.state.design_json import DesignState, design_model

UNDO_MAX: Final = 1_000
PLANS_MAX: Final = 1_024
"""As many answers as an agent's dedup window remembers."""


@dataclass(frozen=True, slots=True)
class DesignSettings:
    """The setup of a design world.

    Attributes:
        design_id: Id of the design; None until a `design.create` sets it.
        policy: Handling of a value beyond its bounds, if its field has no policy.
        fields: Path -> field.
        undo_max: Number of commits that can be undone.
        initial: Initial design; None for an empty one.
    """

    design_id: str | None = None
    policy: RangePolicy = "clamp"
    fields: Mapping[str, RefinableField] = field(default_factory=lambda: REFINABLE_SCHEMA)
    undo_max: int = UNDO_MAX
    initial: DesignState | None = None

    def __post_init__(self) -> None:
        if self.design_id is not None and not is_identity(self.design_id):
            raise ValueError(
                "design_id must be 1 to 128 characters without control characters, "
                f"got {self.design_id!r}"
            )
        if self.policy not in {"clamp", "reject"}:
            raise ValueError(f"policy must be 'clamp' or 'reject', got {self.policy!r}")
        if type(self.undo_max) is not int or not 1 <= self.undo_max <= 2**20:
            raise ValueError(f"undo_max must be an int in 1..2**20, got {self.undo_max!r}")
        _check_settable(self.fields)
        if self.initial is not None:
            self.initial.check(self.fields)

    def keywords(self) -> dict[str, Json] | None:
        """Return the arguments that rebuild these settings, as plain JSON.

        None if the fields are custom.
        """
        if self.fields is not REFINABLE_SCHEMA:
            return None
        own = (
            ("design_id", self.design_id, None),
            ("policy", self.policy, "clamp"),
            ("undo_max", self.undo_max, UNDO_MAX),
        )
        keywords: dict[str, Json] = {n: value for n, value, default in own if value != default}
        if self.initial is not None:
            keywords["initial"] = self.initial.as_dict()
        return keywords

    def digest(self) -> str:
        """Hash the settings that affect decisions."""
        fields = {
            path: [known.json_schema(), known.allowed_units, known.policy, _steps(known)]
            for path, known in self.fields.items()
        }
        initial = None if self.initial is None else self.initial.as_dict()
        data = canonical([self.design_id, self.policy, self.undo_max, initial, fields])
        return blake2b(data, digest_size=8).hexdigest()


def _steps(known: RefinableField) -> dict[str, float]:
    return {step.value: amount for step, amount in known.steps.items()}


def _check_settable(fields: Mapping[str, RefinableField]) -> None:
    """Check that the model of the state can set every path of the whitelist."""
    sections = design_model(fields).model_fields
    for path, refinable in fields.items():
        section, _, name = path.partition(".")
        model = sections[section].annotation
        known = getattr(model, "model_fields", {})
        if path != refinable.path or name not in known:
            raise ValueError(f"the whitelist has {refinable.path!r} under {path!r}")
