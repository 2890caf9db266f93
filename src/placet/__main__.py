"""`python -m placet` is `placet`."""

import sys

from placet.cli import main

if __name__ == "__main__":
    sys.exit(main())
