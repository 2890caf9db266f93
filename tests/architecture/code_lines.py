"""The code lines of each distribution: no blank line, comment or docstring is counted.

    ./dev python -m tests.architecture.code_lines > tests/architecture/budget.toml

writes the numbers that `test_budget.py` holds the distributions to.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BUDGET: Final = ROOT / "tests" / "architecture" / "budget.toml"
COMMAND: Final = "./dev python -m tests.architecture.code_lines > tests/architecture/budget.toml"
HEADER: Final = f"""\
# Code lines of each distribution, at most: blank lines, comments and docstrings are not counted.
# A commit that raises a number says in its message what the lines buy and what they replace.
#   {COMMAND}
"""

_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Return how many lines of a module hold code."""
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _DOCUMENTED)]
    docstrings = {
        line
        for node in documented
        if ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


def distributions() -> dict[str, Path]:
    """Return the folder of the package of each distribution, by the distribution's name."""
    folders = sorted(ROOT.glob("plugins/placet-*/src/placet_*"))
    return {"placet": ROOT / "src" / "placet"} | {path.parents[1].name: path for path in folders}


def counted() -> dict[str, int]:
    """Return the code lines of each distribution."""
    return {
        name: sum(code_lines(path.read_text("utf-8")) for path in folder.rglob("*.py"))
        for name, folder in distributions().items()
    }


def main() -> None:
    """Print the budget that the tree needs now."""
    lines = [f"{name} = {count}\n" for name, count in counted().items()]
    sys.stdout.write(HEADER + "".join(lines))


if __name__ == "__main__":
    main()
