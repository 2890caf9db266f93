"""A design as one value, and its strict conversion to and from JSON.

The model is built from the whitelist, so that state, JSON Schema and rules agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from placet.schemas.codec import Json, freeze, from_json, thaw, to_json
from placet.schemas.keywords import explain_keywords
from placet_design.refinable_fields import REFINABLE_SCHEMA, RefinableField

_TYPES: Final[Mapping[str, type]] = {"float": float, "int": int, "bool": bool}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def design_model(
    fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA,
) -> type[BaseModel]:
    """Return the pydantic model of a design with these fields."""
    return _standard_model() if fields is REFINABLE_SCHEMA else _model(fields)


@lru_cache(maxsize=1)
def _standard_model() -> type[BaseModel]:
    return _model(REFINABLE_SCHEMA)


def _model(fields: Mapping[str, RefinableField]) -> type[BaseModel]:
    sections: dict[str, dict[str, Json]] = {}
    for path, refinable in fields.items():
        section, _, name = path.partition(".")
        sections.setdefault(section, {})[name] = (_annotation(refinable) | None, None)
    models: dict[str, Json] = {}
    for section, members in sections.items():
        model = create_model(section, __base__=_Strict, **members)
        models[section] = (model, Field(default_factory=model))
    return create_model(
        "Design",
        __base__=_Strict,
        design_id=(str | None, None),
        design_version=(Annotated[int, Field(ge=0)], 0),
        locked_parameters=(list[str], Field(default_factory=list)),
        assumptions=(dict[str, float | int | bool | str], Field(default_factory=dict)),
        phases=(dict[str, dict[str, Json]], Field(default_factory=dict)),
        **models,
    )


def _annotation(refinable: RefinableField) -> Json:
    known: Json = _TYPES.get(refinable.type) or Literal[refinable.values]
    unit: Json = {"x-unit": refinable.kernel_unit} if refinable.kernel_unit else None
    return Annotated[
        known,
        Field(
            description=refinable.description,
            ge=refinable.min_value,
            le=refinable.max_value,
            json_schema_extra=unit,
        ),
    ]


@explain_keywords
@dataclass
class DesignState:
    """A design, detached from any world.

    Attributes:
        design_version: Number of commits.
        locked_parameters: Locked paths.
        design_id: Id of the design, or None.
        parameters: Path -> value in the kernel's unit, for the parameters that are set.
        assumptions: Path -> value, for assumptions that differ from their defaults.
        phases: Phase -> its stored result; output only, ignored on input.
    """

    design_version: int = 0
    locked_parameters: set[str] = field(default_factory=set)
    design_id: str | None = None
    parameters: dict[str, Json] = field(default_factory=dict)
    assumptions: dict[str, Json] = field(default_factory=dict)
    phases: dict[str, dict[str, Json]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Json]:
        """Return the design as plain JSON; sections in the order of the whitelist, locks sorted."""
        document: dict[str, Json] = {
            "design_id": self.design_id,
            "design_version": self.design_version,
        }
        for path, value in self.parameters.items():
            section, _, name = path.partition(".")
            document.setdefault(section, {})[name] = value
        document["locked_parameters"] = sorted(self.locked_parameters)
        if self.assumptions:
            document["assumptions"] = dict(sorted(self.assumptions.items()))
        if self.phases:
            document["phases"] = thaw(self.phases)
        return document

    def to_json(self) -> str:
        """Return the design as strict JSON.

        Raises:
            ValueError: A number is not finite.
        """
        return to_json(freeze(self.as_dict(), list)).decode()

    @classmethod
    def from_json(
        cls, text: str | bytes, fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA
    ) -> "DesignState":
        """Parse a design from strict JSON.

        Raises:
            ValueError: The text is no JSON, or no valid design; the message names the place.
        """
        return cls.from_dict(from_json(text), fields)

    @classmethod
    def from_dict(
        cls, document: Json, fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA
    ) -> "DesignState":
        """Build a design from plain values; each must be within the bounds of its field.

        Raises:
            ValueError: The values are no valid design; the message names the place.
        """
        whole = design_model(fields).model_validate(document).model_dump(exclude_none=True)
        values = {path: whole.get(refinable.section, {}) for path, refinable in fields.items()}
        state = cls(
            whole["design_version"],
            set(whole["locked_parameters"]),
            whole.get("design_id"),
            {
                path: section[name]
                for path, section in values.items()
                if (name := path.partition(".")[2]) in section
            },
            whole["assumptions"],
            whole["phases"],
        )
        unknown = sorted(state.locked_parameters - set(fields))
        if unknown:
            raise ValueError(f"locked_parameters has unknown paths: {', '.join(unknown)}")
        return state

    def check(self, fields: Mapping[str, RefinableField] = REFINABLE_SCHEMA) -> None:
        """Check the design against a whitelist.

        Raises:
            ValueError: A path is unknown, or a value is invalid; the message names it.
        """
        self.from_dict(thaw(self.as_dict()), fields)
