"""A verdict on the wire."""

import msgspec
import pytest

from placet.schemas.codec import canonical, from_json, to_json
from tests.kernel.builders import add, kernel_of
from tests.kernel.domains import Lab


@pytest.mark.parametrize(
    "encode", [to_json, canonical, msgspec.json.encode, msgspec.msgpack.encode]
)
def test_a_verdict_is_encoded_only_by_as_dict(encode):
    kernel = kernel_of(Lab())
    for verdict in (kernel.decide([add("a:0")]), kernel.decide([add("a:0", 99)])):
        with pytest.raises(TypeError):
            encode(verdict)
        assert from_json(to_json(verdict.as_dict()))["batch_id"] == verdict.batch_id
