"""`python -m hfconvert`, and the console script."""

from __future__ import annotations

import os
import sys

# Each worker multiplies by itself: threads of BLAS on top of that would wait for each other. It is read when
# numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hfconvert.cli import main

if __name__ == "__main__":
    sys.exit(main())
