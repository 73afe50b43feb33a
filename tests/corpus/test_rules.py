"""The published table of differences is the one that the tests use."""

from tests.support.corpus.rules import page
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "differences.md"


def test_the_published_table_is_the_one_in_use() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.support.corpus.rules > docs/differences.md"
