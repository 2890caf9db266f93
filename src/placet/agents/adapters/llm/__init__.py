"""A language model as a proposer, by any provider that `pydantic-ai` speaks to (extra `llm`).

    conversation (context -> messages) -> requests (one answer, or why not) -> answers (-> raw)

The model receives descriptions of tools, never functions: it cannot execute anything. Its calls are
parsed, held and refused by the same code as every other proposal. See `docs/guides/llm.md`.
"""

try:
    import pydantic_ai  # noqa: F401  # fails here, so one message names the missing package
except ModuleNotFoundError as error:
    raise ImportError(
        "placet.agents.Llm needs the extra 'llm': pip install '.[llm]' in a clone of placet"
    ) from error

from placet.agents.adapters.llm.planner import Llm
from placet.agents.adapters.llm.prices import Prices

__all__ = ["Llm", "Prices"]
