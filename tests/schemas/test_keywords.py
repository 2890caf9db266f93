"""A misspelled keyword is answered with the parameter that was meant."""

import inspect
from dataclasses import dataclass, replace
from functools import partial, partialmethod, wraps

import pytest

from placet import Limits, Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.kernel import Domain, KernelConfig, Kind
from placet.kernel.visibility.distance import WithinDistance
from placet.kernel.visibility.relations import HideFields, KnownOnly, SameTeam
from placet.lab import run_scenarios
from placet.schemas.keywords import explain_keywords, unknown_keyword
from placet.server import create_app
from tests.schemas.public_keywords import assert_keyword_is_explained, with_options

_MODULES = (
    *("placet", "placet.kernel", "placet.lab", "placet.testing", "placet.agents"),
    *("placet.scenarios",),
    *("placet.domains.world", "placet.domains.memory", "placet.domains.session"),
)

_RESULTS = {
    "placet.lab": {"Results"},
    "placet": {"AgentHandle"},
    "placet.kernel": {"Draft", "budget_exceeded", "refuse"},  # take any keyword, as a detail
}
"""Classes of which placet makes the objects, by module."""

_MORE = {
    function.__name__: function
    for function in (create_app, WithinDistance, SameTeam, KnownOnly, HideFields)
}
"""Of modules that list no public names."""


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Lamp:
    color: str = "red"
    height: int = 1

    def __post_init__(self):
        if self.height < 0:
            raise TypeError("of another call")


@explain_keywords
class Room:
    def __init__(self, name, /, *, lamps=()):
        self.name, self.lamps = name, lamps


class Hall(Room):
    def __init__(self, name, **options):
        super().__init__(name, **options)


@explain_keywords
class Empty:
    pass


@explain_keywords
def light(room, *, hours=1):
    """Light a room."""
    return f"{room} for {hours}"


@pytest.mark.parametrize(
    ("called", "keywords", "text"),
    [
        (Lamp, {"colour": "red"}, "Lamp has no parameter 'colour'; did you mean 'color'?"),
        (Lamp, {"height": 2, "watts": 5}, "Lamp has no parameter 'watts'; there are color, height"),
        (partial(replace, Lamp()), {"heigth": 2}, "Lamp has no parameter 'heigth'; did you mean"),
        (partial(Room, "a"), {"lamp": ()}, "Room has no parameter 'lamp'; did you mean 'lamps'?"),
        (Room, {"name": "a"}, "Room has no parameter 'name'; there are lamps"),
        (partial(Hall, "a"), {"lamp": ()}, "Room has no parameter 'lamp'; did you mean 'lamps'?"),
        (light, {"hour": 2}, "light has no parameter 'hour'; did you mean 'hours'?"),
        (light, {}, r"light\(\) missing 1 required positional argument: 'room'"),
        (Lamp, {"height": -1}, "of another call"),
        (Empty, {"color": "red"}, r"Empty\(\) takes no arguments"),
    ],
)
def test_a_call_names_the_keyword_that_it_does_not_take(called, keywords, text):
    with pytest.raises(TypeError, match=text) as caught:
        called(**keywords)
    assert caught.value.__cause__ is caught.value.__context__


def _with_debug(init):
    @wraps(init)
    def call(self, *args, debug=False, **options):
        return init(self, *args, **options)

    return call


@explain_keywords
class Wrapped:
    @_with_debug
    def __init__(self, size):
        raise TypeError(f"the size is {size}")


def test_an_error_from_inside_of_the_call_is_not_replaced():
    with pytest.raises(TypeError, match=r"^the size is 3$"):
        Wrapped(3, debug=True)


def test_the_error_of_python_is_the_cause():
    with pytest.raises(TypeError) as caught:
        Lamp(colour="red")  # type: ignore[call-arg]  # the mistake
    assert "unexpected keyword argument 'colour'" in str(caught.value.__cause__)


def _of_all_modules():
    for module in _MODULES:
        yield from with_options(module, _RESULTS.get(module, ()))


@pytest.mark.parametrize(("name", "called"), [*_of_all_modules(), *_MORE.items()])
def test_every_public_constructor_explains_its_keywords(name, called):
    assert_keyword_is_explained(name, called)


@pytest.mark.parametrize(
    ("called", "keyword", "meant"),
    [
        (KernelConfig, "on_rule_eror", "on_rule_error"),
        (OrchestratorConfig, "quota", "quotas"),
        (Limits, "max_batch_intents", "batch_intents_max"),
        (World, "priate_reach", "private_reach"),
        (Kind, "read", "reads"),
        (Orchestrator, "validator", "effect_validator"),
        (run_scenarios, "job", "jobs"),
    ],
)
def test_a_misspelled_option_is_answered_with_the_one_meant(called, keyword, meant):
    with pytest.raises(TypeError, match=f"has no parameter '{keyword}'; did you mean '{meant}'"):
        called(**{keyword: 1})


def test_a_domain_of_a_user_explains_its_keywords():
    class Shop(Domain):
        name, version, kinds = "shop", "1", ()

        def __init__(self, *, prices=()):
            self.prices = prices

    with pytest.raises(TypeError, match="Shop has no parameter 'price'; did you mean 'prices'"):
        Shop(price=())  # type: ignore[call-arg]  # the mistake
    assert Shop(prices=(1,)).prices == (1,)


def test_a_domain_may_have_an_initializer_that_is_no_function():
    class Shop(Domain):
        name, version, kinds = "shop", "1", ()

        def __init__(self, *, prices=()):
            self.prices = prices

    class Cheap(Shop):
        __init__ = partialmethod(Shop.__init__, prices=(1,))

    assert Cheap().prices == (1,)


def test_a_call_that_succeeds_is_as_before():
    assert light("hall", hours=2) == "hall for 2"
    assert Lamp(height=2) == replace(Lamp(), height=2)
    assert Hall("a", lamps=(1,)).lamps == (1,)


def test_the_signature_stays():
    assert str(inspect.signature(Room)) == "(name, /, *, lamps=())"
    assert str(inspect.signature(light)) == "(room, *, hours=1)"
    assert light.__doc__ == "Light a room."


@pytest.mark.parametrize("function", [int, lambda **options: None])
def test_a_function_that_shows_no_names_is_not_explained(function):
    assert unknown_keyword(function, "it", {"base": 1}) is None


def test_a_function_without_parameters_says_so():
    assert (
        unknown_keyword(lambda: None, "it", {"a": 1}) == "it has no parameter 'a'; there are none"
    )
