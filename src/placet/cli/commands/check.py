"""`placet check`: check a packed log."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from placet.cli.commands.verify import lines_of
from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import with_bar
from placet.cli.terminal import CommandError, Output, with_json
from placet.stores.pack import pack_at


@with_json
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `placet pack` wrote.")],
    domain: AgainBy = None,
) -> Output:
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
            f"log: placet verify {quote(file)}"
        )
    from placet.history.pack import check as check_pack  # noqa: PLC0415  # and pydantic with it

    checked = check_pack(with_bar(log, "check"), again_by(domain, log))
    lines = lines_of(file, checked.verification)
    lines += [
        f"Its description is wrong: {name} {checked.about.get(name)}" for name in checked.false
    ]
    return Output(checked.as_dict, lines, checked.is_ok)
