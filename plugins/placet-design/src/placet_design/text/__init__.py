"""Parser of plain English sentences about a design, for use without a language model.

`parse_text` returns actions that can be submitted, or a `Clarification` with candidates;
`rewordings` returns sentences that answer the question. The parser is outside the domain: no rule,
record or digest depends on it.

Frozen: fix defects, add no grammar. Free text is the task of a language model (`placet.agents`).
"""

from placet_design.text.parser import Clarification, ParsedText, parse_text
from placet_design.text.rewordings import rewordings

__all__ = ["Clarification", "ParsedText", "parse_text", "rewordings"]
