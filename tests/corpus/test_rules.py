"""The published table of differences is the one that the tests use."""

from pathlib import Path

from tests.corpus.rules import page

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


def test_the_published_table_is_the_one_in_use() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.corpus.rules > docs/differences.md"
