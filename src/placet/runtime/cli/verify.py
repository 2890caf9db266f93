"""`placet verify`: does a log hold together?"""

from placet.runtime.cli.stores import log_to_read
from placet.runtime.cli.terminal import AsJson, StoreArgument, counted, say, say_json
from placet.runtime.log_reader import verify as verify_log


def verify(store: StoreArgument, *, as_json: AsJson = False) -> int:
    """Check a log: the chain of its records and every digest.

    Exit code 1 if it does not hold; the first record that does not follow is named.
    """
    verification = verify_log(log_to_read(store))
    if as_json:
        say_json(verification.as_dict())
    elif verification.is_ok:
        say(
            f"{store} holds: {counted(verification.records, 'record')}, seq "
            f"{verification.seq}, digest {verification.digest}"
        )
    else:
        first = verification.first_divergence or {}
        say(f"{store} does NOT hold from record {first['record']} on: {first['why']}")
        say(
            f"What comes before it does: {counted(verification.records, 'record')}, seq "
            f"{verification.seq}, digest {verification.digest}"
        )
    return 0 if verification.is_ok else 1
