"""Run the demo fleet: python -m agent.simulated."""

import sys

from agent.simulated.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
