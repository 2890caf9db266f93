"""The public names of the distribution, and the keywords that they take."""

import pytest

import placet_tools
from tests.schemas.public_keywords import assert_keyword_is_explained, with_options


@pytest.mark.parametrize("name", ["Gate", "NotDone", "Outcome", "Tools"])
def test_the_package_has_the_name(name):
    assert name in placet_tools.__all__


@pytest.mark.parametrize(("name", "called"), [*with_options("placet_tools")])
def test_every_public_constructor_explains_its_keywords(name, called):
    assert_keyword_is_explained(name, called)
