"""`placet erase`: erase the personal data of a subject from a log that no process has open."""

from typing import Annotated

import typer

from placet.cli.domains import AgainBy
from placet.cli.terminal import CommandError, Output, StoreArgument, with_json


@with_json
def erase(
    store: StoreArgument,
    subject: Annotated[
        str, typer.Option(metavar="ID", help="The data subject, as the calls of tools named it.")
    ],
    domain: AgainBy = None,
) -> Output:
    """Erase the personal data of a subject: destroy its key, and record that."""
    # Here, because no other command needs the tools and SQLite.
    from placet.stores.url import file_of, open_event_log  # noqa: PLC0415  # see above
    from placet_tools.frontend.parts.erase_offline import erase_offline  # noqa: PLC0415  # see above

    log = open_event_log(store)
    path = file_of(log)
    if path is None:
        raise CommandError("only a log in a file has personal data beside it; name such as shop.db")
    erased = erase_offline(log, path, subject, domain or ())
    if erased is None:
        raise CommandError(f"nothing was erased: {store} has no personal data of {subject!r}")
    value = {"subject": subject, "id": erased}
    return Output(value, [f"the personal data of {subject} are erased; recorded as {erased}"])
