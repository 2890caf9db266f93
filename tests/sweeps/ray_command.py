"""The command `placet`, with the patience of a sweep on Ray shortened where a test asks for it."""

import os
import sys

from placet.cli import main

if __name__ == "__main__":
    if "PLACET_TEST_NOTICE_S" in os.environ:
        from placet.sweeps.on_ray import executor

        vars(executor)["_NOTICE_S"] = float(os.environ["PLACET_TEST_NOTICE_S"])
    sys.exit(main())
