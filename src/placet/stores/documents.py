"""Documents in files: read up to a bound, so that `/dev/zero` or a damaged file costs no memory."""

from pathlib import Path

from placet.schemas.codec import Json
from placet.schemas.documents import parse_json, parse_toml
from placet.schemas.limits import DOCUMENT_BYTES_MAX


def read_toml(path: Path) -> dict[str, Json]:
    """Read a TOML file.

    Raises:
        OSError: The file cannot be read.
        DocumentError: It is no TOML, or exceeds a bound.
    """
    return parse_toml(read_document(path))


def read_json(path: Path) -> Json:
    """Read a JSON file; `NaN` and `Infinity` are numbers.

    Raises:
        OSError: The file cannot be read.
        DocumentError: It is no JSON, or exceeds a bound.
    """
    return parse_json(read_document(path))


def read_document(path: Path) -> bytes:
    """Return the bytes of a file, at most one more than a document may have.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return file.read(DOCUMENT_BYTES_MAX + 1)
