"""A reader of the disk reads every word of a world, hidden ones too, and no token."""

from placet.domains.world import World
from tests.server.served import TOKENS, serving


async def test_the_files_of_a_world_hold_hidden_words_and_no_token(tmp_path):
    url = f"sqlite:///{tmp_path / 'world.db'}"
    whisper = {"text": "meet me at the well", "channel": "private", "target_id": "bob"}
    world = World(observation={"distance": 10})
    async with serving(world, store=url) as served:
        sent = {"kind": "Speak", "payload": whisper, "req_id": "a"}
        assert (await served.submit(sent, token="alice")).json()["admitted"]
        carol = await served.get("state", token="carol")
        assert "meet me" not in carol.text
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert whisper["text"].encode() in data
    assert not [token for token in TOKENS.values() if token.encode() in data]
