"""`placet check`: check a packed log."""

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from placet.cli.commands.verify import lines_of
from placet.cli.domains import AgainBy
from placet.cli.progress import with_bar
from placet.cli.terminal import (
    AsJson,
    CommandError,
    say,
    say_json,
    say_lines,
)
from placet.plugins.domains import remake
from placet.stores.pack import pack_at


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `placet pack` wrote.")],
    domain: Annotated[list[str] | None, AgainBy] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Check a packed log.

    Checks checksum, chain, digests, decisions and description. Exit code 1 if any is wrong.
    """
    if not Path(file).exists():
        raise CommandError(
            f"there is no file {file}; give the path of a file that `placet pack` wrote"
        )
    log = pack_at(file)
    if log is None:
        raise CommandError(
            f"{file} is not a packed log; expected a file that `placet pack` wrote. To check a "
            "log: "
            f"placet verify {quote(file)}"
        )
    from placet.history.pack import check as check_pack  # noqa: PLC0415  # and pydantic with it

    checked = check_pack(with_bar(log, "check"), partial(remake, given=domain or ()))
    if as_json:
        say_json(checked.as_dict())
        return 0 if checked.is_ok else 1
    say_lines(lines_of(file, checked.verification))
    for name in checked.false:
        say(f"Its description is wrong: {name} {checked.about.get(name)}")
    return 0 if checked.is_ok else 1
