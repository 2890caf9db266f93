"""Marks of arguments that the log does not hold: secrets and personal data.

`Annotated[str, Secret]` and `Annotated[str, Personal(subject="order")]` mark a parameter of a tool.
The intent of a call, and so the log, has a form of the value: a keyed digest. Rules see forms.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final, NoReturn, TypeAlias, get_args, get_origin

from pydantic import Field

from placet.schemas.codec import canonical, to_json

_PLACE: Final = "Annotated[str, {}] around the whole type of a parameter of a tool, not inside it"


class MarkMisplaced(TypeError):  # noqa: N818  # the name states the fault
    """The error of a mark that is not of a parameter, so that its values would be logged."""


class Secret:
    """Mark of a parameter whose value is never stored: `Annotated[str, Secret]`.

    The log has a keyed digest of the value; only the process that received the call has the value.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        """Refuse a mark inside a type: those of parameters are taken off before."""
        raise MarkMisplaced(f"write {_PLACE.format('Secret')}")


@dataclass(frozen=True, slots=True)
class Personal:
    """Mark of a parameter whose value can be erased: `Annotated[str, Personal(subject="order")]`.

    The log has a keyed digest of the value. The value is in the part store beside the log,
    encrypted with the key of its subject; `placet erase` destroys the key.

    Attributes:
        subject: Parameter of the tool whose value identifies the data subject; a name that is no
            parameter is the data subject itself.
    """

    subject: str

    def __get_pydantic_core_schema__(self, *_: object) -> NoReturn:
        """Refuse a mark inside a type: those of parameters are taken off before."""
        raise MarkMisplaced(f"write {_PLACE.format(self)}")


Mark: TypeAlias = Secret | Personal

_DIGEST: Final = "[0-9a-f]{32}"
_SUBJECT: Final = "[0-9a-f]{16}"
SECRET_FORM: Final = f"secret:{_DIGEST}"
PERSONAL_FORM: Final = f"personal:{_SUBJECT}:{_DIGEST}"
OUTPUT_FORM: Final = rf"part:{_SUBJECT}(?:\+{_SUBJECT})*:{_DIGEST}"
"""Form of an output, or of the text of a failure, that is in the part store."""

UNNAMED: Final = "?"
"""Stands for a name that a caller made up, and that may be a value."""

_PLAIN_NAME: Final = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.\-]{0,47})? ?")

_NO_DIGEST: Final = "0" * 32
_NO_SUBJECT: Final = "0" * 16

FormOfSecret: TypeAlias = Annotated[str, Field(pattern=f"^{SECRET_FORM}$")]
FormOfPersonal: TypeAlias = Annotated[str, Field(pattern=f"^{PERSONAL_FORM}$")]
FormOfOutput: TypeAlias = Annotated[str, Field(pattern=f"^{OUTPUT_FORM}$")]


def split_mark(hint: Any) -> tuple[Mark | None, Any]:  # noqa: ANN401  # a type hint
    """Return the mark of a parameter, or None, and its type without the mark.

    Raises:
        MarkMisplaced: The parameter has several marks.
    """
    if get_origin(hint) is not Annotated:
        return None, hint
    inner, *metadata = get_args(hint)
    marks = [one for one in metadata if one is Secret or isinstance(one, Secret | Personal)]
    if len(marks) > 1:
        raise MarkMisplaced(f"a parameter has one mark, got {marks}")
    if not marks:
        return None, hint
    rest = tuple(one for one in metadata if one not in marks)
    mark = Secret() if marks[0] is Secret else marks[0]
    return mark, Annotated[(inner, *rest)] if rest else inner  # type: ignore[return-value]  # a type


def form_type(mark: Mark) -> Any:  # noqa: ANN401  # a type hint
    """Return the type of the form of a marked argument in the payload of an intent."""
    return FormOfSecret if isinstance(mark, Secret) else FormOfPersonal


def secret_form(digest: str) -> str:
    """Return the form of a secret."""
    return f"secret:{digest}"


def personal_form(subject: str, digest: str) -> str:
    """Return the form of a personal argument.

    Args:
        subject: Id of the subject in the part store, which is random.
        digest: Keyed digest of the value.
    """
    return f"personal:{subject}:{digest}"


def output_form(subjects: str, digest: str) -> str:
    """Return the form of an output; the ids of its subjects are joined by `+`."""
    return f"part:{subjects}:{digest}"


def part_of(form: str) -> tuple[str, str]:
    """Return the subjects and the digest of the form of a personal argument or an output."""
    _, subjects, digest = form.split(":")
    return subjects, digest


def subject_of(mark: Personal, arguments: Mapping[str, Any]) -> str:
    """Return the data subject of a marked argument."""
    subject = arguments.get(mark.subject, mark.subject)
    return subject if isinstance(subject, str) else to_json(subject).decode()


def with_example_forms(arguments: Mapping[str, Any], marks: Mapping[str, Mark]) -> dict[str, Any]:
    """Return the arguments of a call that is no real one, with forms whose digests have no key."""
    formed = dict(arguments)
    for name, mark in marks.items():
        if isinstance(mark, Secret):
            formed[name] = secret_form(_digest(arguments[name], 16))
        else:
            subject = _digest(subject_of(mark, arguments), 8)
            formed[name] = personal_form(subject, _digest(arguments[name], 16))
    return formed


def _digest(value: Any, size: int) -> str:  # noqa: ANN401  # JSON
    return blake2b(canonical(value), digest_size=size).hexdigest()


def unused_form(mark: Mark) -> str:
    """Return a form that no value has, for a call that is refused because of another argument."""
    if isinstance(mark, Secret):
        return secret_form(_NO_DIGEST)
    return personal_form(_NO_SUBJECT, _NO_DIGEST)


def plain_name(name: str) -> str:
    """Return the name of a tool or argument that is not declared, as the log may have it.

    A model that confuses the form of a call writes values in the place of a name, so a name that
    is long, or has signs that a name does not have, is replaced.
    """
    return name if _PLAIN_NAME.fullmatch(name) else UNNAMED


def names_alone(arguments: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return arguments with a reason in the place of each value."""
    return {plain_name(name): f"invalid ({why})" for name in arguments}


def hidden(
    arguments: Mapping[str, Any],
    declared: Collection[str],
    marks: Mapping[str, Mark],
    faults: Mapping[str, str],
) -> dict[str, Any]:
    """Return arguments that do not fit, without the values that the log must not have.

    Left out are values of marked arguments, of arguments that are not declared, and of arguments
    that do not fit: a secret may be in any of them.

    Args:
        arguments: The arguments of the caller.
        declared: Names of the tool's parameters.
        marks: The marks of the tool's parameters.
        faults: Kind of fault of each argument that does not fit, such as `string_too_short`.
    """
    shown: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in declared:
            shown |= names_alone({name: value}, faults.get(name, "undeclared"))
        elif name in faults:
            shown[name] = f"invalid ({faults[name]})"
        else:
            shown[name] = unused_form(marks[name]) if name in marks else value
    return shown


def without_words(value: Any, words: Collection[str], instead: str) -> Any:  # noqa: ANN401  # JSON
    """Return a value in which words are replaced wherever its texts and names contain them.

    So is a number that is written like one of them. Of two words at one place the longer one is
    replaced.
    """
    if not words:
        return value
    longest_first = sorted(words, key=len, reverse=True)
    return _replaced(value, re.compile("|".join(map(re.escape, longest_first))), instead)


def _replaced(value: Any, words: "re.Pattern[str]", instead: str) -> Any:  # noqa: ANN401  # JSON
    if isinstance(value, str):
        return words.sub(lambda _: instead, value)
    if isinstance(value, Mapping):
        return {
            _replaced(key, words, instead): _replaced(one, words, instead)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(one, words, instead) for one in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return instead if is_number and words.fullmatch(str(value)) else value


def with_values(value: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
    """Return JSON in which forms are replaced by their values."""
    if isinstance(value, str):
        return values.get(value, value)
    if isinstance(value, Mapping):
        return {name: with_values(one, values) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_values(one, values) for one in value]
    return value
