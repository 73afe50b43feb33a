"""Run the command line with `python -m dragoman`."""

import sys

from dragoman.cli import main

if __name__ == "__main__":
    sys.exit(main())
