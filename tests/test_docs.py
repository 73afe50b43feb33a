"""Every Python block of the README and of the docs runs, in order, in one namespace per page."""

import re
from pathlib import Path

import pytest

from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import decode_config
from tests.support import features
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_code_of_a_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own pages
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_configs_of_a_page_are_taken(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    variables = {name: hash_key(f"{name:-<24}") for name in re.findall(r"\$\{(\w+)\}", text)}
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        decode_config(block, variables)


def test_the_links_of_a_page_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_table_of_providers_is_made_from_the_records() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- made by tests.support.features -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == features.table(), "python -m tests.support.features gives the table of the README"
