"""The boundary to plug-in code: an exception raised by a domain becomes a `PluginError`.

`decide_batch` turns it into a `rule_error` refusal. Ctrl-C and the end of the process
(`INTERRUPTS`) pass through unchanged: they are not the plug-in's fault.
"""

from types import TracebackType
from typing import Final

from placet import schemas
from placet.schemas.errors import INTERRUPTS, DomainError, describe_error
from placet.schemas.portable_error import PortableError


class PluginError(PortableError):
    """A domain's code raised, or returned an invalid value, where the kernel called it.

    Attributes:
        where: The call, such as `footprint of Move`.
        error: The exception.
        index: Position of the intent in the batch; None if the call was not for one intent.
    """

    def __init__(self, where: str, error: BaseException, index: int | None = None) -> None:
        super().__init__(where)
        self.where = where
        self.error = error
        self.index = index


_KERNEL: Final = __file__.removesuffix("plugin/boundary.py")
_OWN: Final = (_KERNEL, schemas.__file__.removesuffix("__init__.py"))


def raised_by(where: str, error: BaseException, *callers: str) -> DomainError:
    """Return the error of a domain's code that raised before a world is open.

    Args:
        where: The call, such as `settings of domain 'shop'`.
        error: The exception.
        callers: Files that called the domain, outside of the kernel.
    """
    return DomainError(f"{where} raised {describe_error(error)}{short_place_of(error, *callers)}")


def short_place_of(error: BaseException, *callers: str) -> str:
    """Return the place of an error without its folder, in parentheses; empty if it has none.

    A person at another machine may read it, who must not learn paths.
    """
    place = place_of(error, *callers)
    name = place[max(place.rfind("/"), place.rfind("\\")) + 1 :]
    return f" ({name})" if name else ""


def place_of(error: BaseException, *callers: str) -> str:
    """Return the place at which a domain's code raised: `FILE:LINE in FUNCTION`.

    It is the last line of the files beside that of the function that the kernel called, so that
    an exception of the kernel or of a library is placed where the domain called it.

    Args:
        error: The exception.
        callers: Files that called the domain, outside of the kernel.

    Returns:
        Empty if no line of the domain ran, such as for a wrong number of arguments.
    """
    place = ""
    folder: str | None = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        file = code.co_filename
        if not file.startswith(_OWN) and file not in callers:
            if folder is None:
                folder = file[: max(file.rfind("/"), file.rfind("\\")) + 1]
            if file.startswith(folder):
                place = f"{file}:{step.tb_lineno} in {code.co_name}"
        step = step.tb_next
    return place


class plugin_boundary:  # noqa: N801  # used like a function, as contextlib's managers are
    """Turn an exception of plug-in code inside a `with` block into a `PluginError`.

    A class and not a generator, which would cost twice as much. A loop over intents enters it
    once and sets `where` and `index` for each.

    Attributes:
        where: The call, such as `footprint of Move`.
        index: Position of the intent in the batch, or None.
    """

    __slots__ = ("index", "where")

    def __init__(self, where: str = "", index: int | None = None) -> None:
        self.where = where
        self.index = index

    def __enter__(self) -> "plugin_boundary":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, INTERRUPTS):
            raise PluginError(self.where, error, self.index) from error
