"""`placet.lab` exports its names lazily."""

import pytest

import placet.lab


@pytest.mark.parametrize("name", placet.lab.__all__)
def test_each_public_name_of_the_lab_can_be_imported(name):
    assert getattr(placet.lab, name).__name__ == name
    assert name in dir(placet.lab)


def test_an_unknown_name_of_the_lab_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Sweeep'"):
        placet.lab.Sweeep  # noqa: B018
