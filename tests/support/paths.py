"""Where things are: the repository, and the recorded exchanges, which may be absent."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SHARED = ROOT.parent / "shared"
CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS", SHARED / "corpus"))
