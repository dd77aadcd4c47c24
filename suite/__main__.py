"""`python -m suite`, the command `suite`: what `torchrun -m suite train ...` starts in each of its processes."""

import sys

from suite.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
