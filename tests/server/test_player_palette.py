"""The colors of categories stay apart for color-blind readers, and from the map's ground.

Source: Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color
vision deficiency", 2009 (severity 1.0); distances are CIE 1976, where 2.3 is just noticeable.
"""

import re
from importlib.resources import files

import numpy as np
import pytest

VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]
    ),
    "deuteranopia": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
    ),
    "tritanopia": np.array(
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
APART = 20


def colors(name, part):
    """Return the colors of a style, `light` or `dark`, as rows of linear RGB."""
    text = files("placet").joinpath("server", "dashboard", name).read_text("utf-8")
    found = re.findall(part + r": #(\w{6})", text)
    values = np.array([[int(one[at : at + 2], 16) / 255 for at in (0, 2, 4)] for one in found])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(linear):
    xyz = linear @ XYZ.T / WHITE
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_categories_differ_in_each_vision(scheme, vision):
    kinds = colors("player.css", r"--kind-\d")[8 * scheme : 8 * scheme + 8]
    ground = colors("style.css", "--ground")[scheme : scheme + 1]
    seen = lab(np.clip(np.vstack([kinds, ground]) @ VISIONS[vision].T, 0, 1))
    distances = np.linalg.norm(seen[:, None] - seen[None], axis=2)
    assert len(seen) == 9
    assert distances[np.triu_indices(9, 1)].min() > APART
