"""`python -m gpuledger` as it is installed: the wheel's __main__.py. In a checkout gpuledger is a file."""

import sys

from gpuledger import main

if __name__ == "__main__":
    sys.exit(main())
