"""The laws of the executors of a domain: complete, repeatable as declared, and recordable."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy

from placet.kernel.plugin.domain import Domain, EffectHandler
from placet.runtime.executors.domain_executors import load_handlers
from placet.runtime.executors.handlers import as_handler
from placet.schemas.codec import Json, to_json
from placet.schemas.effect import Effect, EffectKey


class ExecutorContract:
    """Laws of the executors that a domain names. Subclass it; define `domain` and `payloads`.

    `Domain.executors` names the function that makes them: an entry point of `placet.executors`, or
    `module:function`. Handlers run here, so `domain` returns one whose handlers may.
    """

    def domain(self) -> Domain:
        """Return a new domain; its handlers act on nothing that another call returned."""
        raise NotImplementedError

    def payloads(self) -> Mapping[str, dict[str, Json]]:
        """Return a payload of each kind of effect, as a rule emits it."""
        raise NotImplementedError

    def test_each_kind_of_effect_has_an_entry(self) -> None:
        """Compare the kinds of the function with the kinds that the domain's rules may emit."""
        domain = self.domain()
        emitted = {kind for intent_kind in domain.kinds for kind in intent_kind.effects}
        handlers = load_handlers(domain, is_fork=False)
        assert set(handlers) == emitted, "each kind of effect needs a handler, or None"

    def test_each_handler_has_a_payload_here(self) -> None:
        """Find handlers that no law of this suite runs."""
        handlers = load_handlers(self.domain(), is_fork=False)
        assert set(self.payloads()) == {kind for kind, made in handlers.items() if made is not None}

    def test_an_output_has_a_json_form(self) -> None:
        """Encode each output as its settlement does; an output without a JSON form is lost."""
        for kind, payload in self.payloads().items():
            (output,) = self._outputs(kind, payload, 1)
            to_json(output)

    def test_a_payload_is_only_read(self) -> None:
        """Compare each payload before and after an attempt: the next attempt reads it again."""
        for kind, payload in self.payloads().items():
            before = deepcopy(payload)
            self._outputs(kind, payload, 1)
            assert payload == before, f"the handler of {kind!r} changed its payload"

    def test_a_second_attempt_does_what_its_delivery_promises(self) -> None:
        """Run each effect twice with one key, as after a crash between work and settlement."""
        for kind, payload in self.payloads().items():
            handler = _handlers_of(self.domain())[kind]
            if handler.delivery == "at_most_once":  # never has a second attempt
                continue
            first, second = self._outputs(kind, payload, 2)
            if handler.delivery != "keyed":  # the callee of a keyed one may answer "done already"
                assert first == second, f"{kind!r} is {handler.delivery}, and its outputs differ"

    def _outputs(self, kind: str, payload: dict[str, Json], attempts: int) -> list[Json]:
        """Return the outputs of attempts at one effect of a new domain."""
        run = as_handler(_handlers_of(self.domain())[kind].handler, 1)
        key = EffectKey("contract", 1, 0)

        async def attempt() -> list[Json]:
            return [
                await run(Effect(key, kind, payload, "ann", number + 1))
                for number in range(attempts)
            ]

        return asyncio.run(attempt())


def _handlers_of(domain: Domain) -> dict[str, EffectHandler]:
    handlers = load_handlers(domain, is_fork=False)
    return {kind: handler for kind, handler in handlers.items() if handler is not None}
