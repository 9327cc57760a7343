"""`python -m hfconvert`, and the console script."""

from __future__ import annotations

import os
import sys

# Each worker multiplies by itself: threads of BLAS on top of that would wait for each other. It is read when
# numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# pydantic would look through everything that is installed for plugins of its own, and run them.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> int:
    """The console script: the exit code of the command that the arguments name."""
    from hfconvert.edge import guarded

    arguments = sys.argv[1:]
    if arguments[:1] in (["inspect"], ["plan"]):
        from hfconvert.quick import answer_quickly, is_quick

        if is_quick(arguments):
            return guarded(lambda: answer_quickly(arguments))
    from hfconvert.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
