"""`python -m hfconvert`, and the console script."""

from __future__ import annotations

import sys

from hfconvert.cli import main

if __name__ == "__main__":
    sys.exit(main())
