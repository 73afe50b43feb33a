"""Builds the site: `make docs`, or `python docs/site/build.py [FOLDER]`.

The pages of `docs/`, the pages at the root of the repository and the pages that `reference.py` makes are collected in
one folder with the same relative paths, so that their links work. Links to other files lead to the repository, or to
the page of the reference that is made from the file. Then Sphinx makes HTML with navigation and search. Every warning
is an error: a link to a page or a heading that does not exist fails the build.
"""

import os.path
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from sphinx.cmd.build import main as sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # the tests know how each provider gets each feature

import reference  # noqa: E402 - it needs the path

SITE = ROOT / "docs" / "site"
ROOT_PAGES = ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")
REFERENCE = {
    "src/dragoman/agents/agent.py": "api/agents.md#agentoptions",
    "src/dragoman/demo/provider.py": "providers/demo.md",
    "src/dragoman/__init__.py": "api/index.md",
    "src/dragoman/engine/call_options.py": "api/calls.md#calloptions",
    "src/dragoman/errors.py": "errors.md",
    "src/dragoman/testing/__init__.py": "api/testing.md",
}
"""Links to these files lead to the page of the reference that is made from them."""


def build(output: Path) -> int:
    """Build into a folder; returns the exit code of Sphinx."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        collect(pages)
        return sphinx(["-W", "--keep-going", "-q", "-b", "html", "-c", str(SITE), str(pages), str(output)])


def collect(pages: Path) -> None:
    """Put every page into one folder."""
    for path in [*(ROOT / f"{name}.md" for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.parent != SITE:
            _write(pages / path.relative_to(ROOT), _outside_links(path))
    for picture in sorted((ROOT / "docs").rglob("*.svg")) + sorted((ROOT / "docs").rglob("*.png")):
        target = pages / picture.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    for name, text in reference.pages().items():
        _write(pages / "reference" / f"{name}.md", text)
    _write(pages / "index.md", (SITE / "index.md").read_text(encoding="utf-8"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _outside_links(path: Path) -> str:
    """The text of a page whose links to files that are not pages lead to the repository."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

    def change(match: re.Match[str]) -> str:
        target = (path.parent / match[1].partition("#")[0]).resolve()
        is_page = target.suffix in {".md", ".svg", ".png"} and (
            target.parent == ROOT or ROOT / "docs" in target.parents
        )
        if not target.exists() or is_page or ROOT not in target.parents:
            return match[0]
        if page := REFERENCE.get(target.relative_to(ROOT).as_posix()):
            return f"]({os.path.relpath(ROOT / 'reference' / page, path.parent)})"
        return f"]({urls['Homepage']}/blob/main/{target.relative_to(ROOT).as_posix()})"

    return re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", change, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    code = build(folder)
    if not code:
        print(f"The site is in {folder}; open {folder / 'index.html'}")  # noqa: T201 - for the user
    sys.exit(code)
