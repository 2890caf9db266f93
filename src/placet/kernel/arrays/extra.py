"""The extra that tables need, checked where a world or a log has its first table."""

from placet.schemas.errors import MissingExtraError


def require_numpy(what: str) -> None:
    """Check that numpy is installed, before the modules of arrays are imported.

    Args:
        what: The world or the log, for the message.

    Raises:
        MissingExtraError: It is not.
    """
    try:
        import numpy  # noqa: F401, PLC0415  # the extra
    except ImportError as error:
        raise MissingExtraError(
            f"{what} has tables, and tables need numpy, which is not there ({error}); install it "
            "with `pip install '.[arrays]'` in a clone of placet"
        ) from error
