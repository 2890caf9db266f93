"""The folder of a server of the tests."""

import pytest
from tests.tools.gateway.plain_client import Folder, tool


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.has_tools(tool("work"))
    return folder
