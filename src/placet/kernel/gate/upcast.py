"""Payloads that are older than their kind, made today's before anything else looks at them."""

from collections.abc import Mapping

from placet.kernel.context import PluginError
from placet.kernel.registry import Registry
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import freeze, thaw
from placet.schemas.errors import INTERRUPTS


def upcast(batch: CheckedBatch, versions: Mapping[str, str], registry: Registry) -> None:
    """Convert the payloads of a batch to their kinds' present versions.

    Those of the present version are unchanged.

    Args:
        batch: Read back from a record.
        versions: Of its kinds, as they were then; a kind that is not there is of today's.
        registry: Of today.

    Raises:
        PluginError: An upcaster raised, or there is none from the version that a payload is of.
    """
    now = registry.versions
    if all(now.get(name, version) == version for name, version in versions.items()):
        return
    intents = list(batch.intents)
    for index, intent in enumerate(intents):
        kind = registry.kinds.get(intent["kind"])
        version = versions.get(intent["kind"])
        if kind is None or version is None or version == kind.version:
            continue
        where = f"upcaster of {kind.name} from version {version}"
        try:
            upcaster = kind.upcasters.get(version)
            if upcaster is None:
                raise LookupError(f"there is none to version {kind.version}")
            payload = thaw(freeze(upcaster(thaw(intent["payload"]))))
        except INTERRUPTS:
            raise
        except BaseException as error:
            raise PluginError(where, error, index) from error
        intents[index] = {**intent, "payload": payload}
    batch.intents = intents
