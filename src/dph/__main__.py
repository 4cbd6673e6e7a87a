"""``python -m dph``: the command line."""

import sys

from dph.cli import main

if __name__ == "__main__":
    sys.exit(main())
