"""The public names, of which the source documents speak, and the keywords that they take."""

import pytest

import placet_files
from placet_files.frontend import codi
from tests.schemas.public_keywords import assert_keyword_is_explained, with_options


@pytest.mark.parametrize("name", ["Files"])
def test_the_package_has_the_name(name):
    assert name in placet_files.__all__


@pytest.mark.parametrize(("name", "called"), [*with_options("placet_files")])
def test_every_public_constructor_explains_its_keywords(name, called):
    assert_keyword_is_explained(name, called)


def test_the_action_contract_is_there():
    assert codi.FileTool.__doc__
