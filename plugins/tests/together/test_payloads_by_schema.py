"""Payloads that a model fills in by the JSON Schemas of the plug-ins' kinds are accepted."""

import pytest

from placet.agents.proposal.catalogue import Catalogue
from placet.kernel.plugin.domain import Domain
from tests.agents.adapters.llm.test_models import DOMAINS, OWN_DOMAINS, check_payloads_by_schema

pytestmark = pytest.mark.anyio

BEYOND_SCHEMA = {"program.inspect", "program.mutate_batch"}
"""Kinds of which a validator, and no schema, requires a field by the value of another."""


@pytest.mark.parametrize(
    "domain", [one for one in DOMAINS if one not in OWN_DOMAINS], ids=lambda one: one.name
)
async def test_the_parser_accepts_payloads_valid_by_the_schema(domain: type[Domain]) -> None:
    catalogue = Catalogue(domain())
    await check_payloads_by_schema(catalogue, catalogue.kinds.keys() - BEYOND_SCHEMA)
