"""The command line: `placet run`, `gate`, `log`, `replay`, `verify`, `kinds`, `serve`...

One file for each command, which parses its options, calls the runtime, and prints. Results go to
stdout: text for people, one JSON document with `--json` (`gate` always speaks JSON lines). An error
is one line on stderr. Exit code 0: done; 1: refused or failed; 2: the command was not understood;
128 + n: stopped by signal n, after a clean end.
"""

import sys


def main() -> int:
    """Run the command that the process was started with, and return its exit code."""
    # Here, because only commands need the terminal libraries, whose import takes 0.1 s.
    from placet.cli.app import run_command  # noqa: PLC0415  # see above

    return run_command(sys.argv[1:])
