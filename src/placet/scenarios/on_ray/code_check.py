"""Compares the code of a machine with the driver's.

It travels as code, to run where placet is missing. So it imports nothing of placet, and everything
else inside of its functions.
"""

from collections.abc import Mapping
from typing import Any


def problem_here(expected: Mapping[str, Any]) -> str:
    """Return the first difference of this machine's code from the driver's; empty if none.

    Args:
        expected: `packages`: name -> (version, path -> hash); `modules`: names.
    """
    import hashlib  # noqa: PLC0415  # see above
    import importlib  # noqa: PLC0415  # see above
    import importlib.metadata  # noqa: PLC0415  # see above
    import pathlib  # noqa: PLC0415  # see above

    for package, (version, digests) in expected["packages"].items():
        try:
            file = importlib.import_module(package).__file__
            here = importlib.metadata.version(package)
        except Exception as error:  # noqa: BLE001  # whatever an import raises
            return f"package {package!r} cannot be imported: {type(error).__name__}: {error}"
        if here != version:
            return f"{package} is {here} there, {version} here"
        root = pathlib.Path(file or "").parent
        for path, digest in digests.items():
            data = (root / path).read_bytes() if (root / path).is_file() else b""
            if hashlib.sha256(data).hexdigest()[:16] != digest:
                return f"{package} {version} has another {path} there ({root / path})"
    for module in expected["modules"]:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001  # whatever an import raises
            return f"module {module!r} cannot be imported: {type(error).__name__}: {error}"
    return ""
