"""``python -m dph_corpus``."""

import sys

from dph_corpus.cli import main

if __name__ == "__main__":
    sys.exit(main())
