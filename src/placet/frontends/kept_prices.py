"""Prices of models at private addresses, as a person stated them once.

They are in the file `model_prices.toml` of the user's configuration folder (`~/.config/placet` on
Linux, or below `$XDG_CONFIG_HOME`): `"HOST:PORT/MODEL" = [IN, OUT]`, in US dollars for a million
tokens. A person may edit the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from placet.cli.terminal import CommandError
from placet.schemas.codec import Json, to_json
from placet.schemas.documents import DocumentError
from placet.stores.documents import read_toml
from placet.stores.files import make_folder, write_whole


def kept_prices_path() -> Path:
    """Return the path of the file of kept prices; it may not exist."""
    return Path(typer.get_app_dir("placet")) / "model_prices.toml"


def read_kept_price(key: str) -> list[float] | None:
    """Return the price that is kept for a model; None if none is.

    Args:
        key: `HOST:PORT/MODEL`.

    Raises:
        CommandError: The file cannot be read, or the price in it is not two or three numbers.
    """
    price = _read().get(key)
    if price is None:
        return None
    is_price = isinstance(price, list) and len(price) in {2, 3}
    if not is_price or not all(type(part) in {int, float} for part in price):
        raise CommandError(
            f"{kept_prices_path()}: the price of {key!r} must be [IN, OUT] or [IN, OUT, CACHED], "
            f"got {price!r}"
        )
    return [float(part) for part in price]


def keep_price(key: str, price: Sequence[float]) -> None:
    """Keep the price of a model, replacing an earlier one.

    Raises:
        CommandError: The file cannot be read or written.
    """
    prices, path = {**_read(), key: list(price)}, kept_prices_path()
    lines = [
        f"{to_json(name).decode()} = {to_json(one).decode()}\n" for name, one in prices.items()
    ]
    try:
        make_folder(path.parent)
        write_whole(path, "".join(lines).encode())
    except OSError as error:
        raise CommandError(
            f"the price cannot be kept in {path}: {error.strerror or error}"
        ) from error


def _read() -> Mapping[str, Json]:
    path = kept_prices_path()
    try:
        return read_toml(path)
    except FileNotFoundError:
        return {}
    except (OSError, DocumentError) as error:
        raise CommandError(f"cannot read the kept prices in {path}: {error}") from error
