"""The pages: every Python block runs when it is copied alone, its output is shown as it is, links and lists are complete.

A block `python` runs here as it is. A block `py` needs something that the page has described before, such as a running
gateway or a key, so a test of its own runs it with that.
"""

import ast
import asyncio
import importlib
import re
import shlex
import sys
import tomllib
from argparse import SUPPRESS
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import dragoman
import dragoman.testing
from benchmarks import comparison
from dragoman.agents.agent import AgentOptions
from dragoman.api import default_registry
from dragoman.cli.parser import COMMANDS, parser_of
from dragoman.engine.call_options import CallOptions
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import TABLES, decode_config
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.runtime import Runtime
from dragoman.targets.providers import PROVIDERS
from dragoman.testing import ClaudeSimulator
from tests.support import features
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*sorted(ROOT.glob("*.md")), *(page for page in PAGES if page.parent.name != "site")]
"""The pages with links to files. The first page of the site links to pages of the site, which `make docs` checks."""
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```output\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
"""A block of code, and the block of its output if there is one."""


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_each_block_runs_alone(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    failures: list[str] = []
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        try:
            output = _run(block[1], page, line)
            assert block[2] is None or output == block[2], f"the output is\n{output}"
        except Exception as error:  # noqa: BLE001 - every block of the page is reported
            failures.append(f"{page.name}:{line}: {type(error).__name__}: {error}")
        default_registry.cache_clear()  # a block may have changed it
    assert not failures, "\n".join(failures)


def _run(code: str, page: Path, line: int) -> str:
    """Run a block in a namespace of its own, and return what it prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    program = compile("\n" * line + code, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(StringIO()) as output:
        coroutine = eval(program, names)  # noqa: S307 - our own pages
        if coroutine is not None:
            asyncio.run(coroutine)
    return output.getvalue()


OTHER_BLOCKS = {
    "README.md": 2,  # below, with a simulator of Claude; tests/gateway/test_docs.py
    "docs/batches.md": 1,  # tests/gateway/test_docs.py
    "docs/gateway.md": 4,  # tests/gateway/test_docs.py
    "docs/how-to/approval.md": 1,  # below
    "docs/how-to/fastapi.md": 1,  # below: it is the program of examples/, which tests/test_examples.py runs
    "docs/how-to/notebook.md": 1,  # below
    "docs/tools.md": 2,  # they start MCP servers of others; tests/tools/test_mcp.py and examples/mcp_agent.py start our own
    "docs/tutorial.md": 2,  # tests/gateway/test_docs.py
}
"""The number of `py` blocks of each page, and what runs them."""


def _blocks(page: str) -> list[tuple[str, str]]:
    """The `py` blocks of a page, with their outputs."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(BLOCK.pattern.replace("```python", "```py"), text, re.MULTILINE | re.DOTALL)


def test_every_python_block_has_a_test() -> None:
    names = [page.relative_to(ROOT).as_posix() for page in PAGES]
    assert {name: len(blocks) for name in names if (blocks := _blocks(name))} == OTHER_BLOCKS
    kinds = {
        kind for page in PAGES for kind in re.findall(r"^```(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert kinds <= {
        "python",
        "py",
        "output",
        "console",
        "bash",
        "sh",
        "toml",
        "json",
        "yaml",
        "ini",
        "text",
        "{toctree}",
    }


def test_the_five_lines_with_a_provider_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with ClaudeSimulator("It has salt from rivers.").serve() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        default_registry.cache_clear()
        assert _run(_blocks("README.md")[0][0], ROOT / "README.md", 0) == "It has salt from rivers."
    default_registry.cache_clear()


def test_the_cell_of_a_notebook_runs() -> None:
    ((code, output),) = _blocks("docs/how-to/notebook.md")
    assert _run(code, ROOT, 0) == output


@pytest.mark.parametrize(("answer", "output"), [("y", "berth 7 is deleted"), ("n", "it was not approved")])
def test_the_how_to_for_approval_asks(answer: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ((code, _),) = _blocks("docs/how-to/approval.md")

    def type_in(_question: str) -> str:
        return answer

    monkeypatch.setattr("builtins.input", type_in)
    assert output in _run(code, ROOT, 0)


def test_the_how_to_for_fastapi_is_the_example() -> None:
    ((code, _),) = _blocks("docs/how-to/fastapi.md")
    example = (ROOT / "examples" / "fastapi_endpoint.py").read_text(encoding="utf-8")
    body = code.partition("\n\napp = ")[2]  # the example imports more
    assert [line for line in body.splitlines() if line.partition("  #")[0] not in example] == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_command_lines_of_a_page_are_valid(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for shown, inline in re.findall(r"^(?:\$ )?(dragoman .*)$|`(dragoman [a-z][^`]*)`", text, re.MULTILINE):
        words = shlex.split(shown or inline, comments=True)
        end = next(
            (number for number, word in enumerate(words) if word in {"|", "&", ">", "2>", ";", "&&"}), len(words)
        )
        command, *arguments = words[1:end]
        if command in COMMANDS and arguments and "--help" not in arguments:
            parser_of(command).parse_args(arguments)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_configs_of_a_page_are_valid(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    variables = {name: hash_key(f"{name:-<24}") for name in re.findall(r"\$\{(\w+)\}", text)}
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        decode_config(block, variables)


def test_the_links_of_a_page_exist() -> None:
    for page in LINKED:
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/code-map.md", "docs/security.md"])
def test_the_files_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`((?:[a-z_0-9*]+/)+[a-z_0-9*]+\.(?:py|json))`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    roots = (ROOT, ROOT / "src" / "dragoman")
    assert [name for name in named if not any(any(root.glob(name)) for root in roots)] == []


def test_each_change_of_the_changelog_has_a_short_line() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) >= 120 and not line.startswith("|")] == []


def test_every_page_is_listed() -> None:
    overview = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    navigation = (ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8").split()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").as_posix()
        if page.parent.name not in {"site", "decisions"} and name != "README.md":
            assert f"]({name})" in overview, f"add docs/{name} to docs/README.md"
            assert f"docs/{name.removesuffix('.md')}" in navigation, f"add docs/{name} to docs/site/index.md"


def test_every_example_is_listed() -> None:
    page = (ROOT / "docs" / "how-to" / "README.md").read_text(encoding="utf-8")
    examples = {example.name for example in (ROOT / "examples").glob("*.py")}
    assert set(re.findall(r"\]\(\.\./\.\./examples/(\w+\.py)\)", page)) == examples


def test_the_table_of_providers_is_up_to_date() -> None:
    page = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    table = page.partition("<!-- generated by tests.support.features -->\n")[2].partition("\n<!-- end -->")[0]
    assert table == features.table(), "regenerate the table with python -m tests.support.features"


def test_the_readme_has_the_measured_rows_of_the_comparison() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(\S+) +(\S+) +(\d+) packages +([\d.]+) MB(?: +import +(\d+) ms CPU)?$", page, re.MULTILINE)
    measured = {
        name: comparison.Figures(version, int(packages), float(megabytes), float(time) if time else None)
        for name, version, packages, megabytes, time in shown
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for row in comparison.readme_rows(measured):
        _, name, *cells = row.split("|")
        assert row in page
        assert re.search(rf"^\| {name.strip()}[^|]*\|{re.escape('|'.join(cells))}$", readme, re.MULTILINE), row


def test_the_table_of_extras_is_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", page, re.MULTILINE))
    for_contributors = {"bench", "dev", "docs", "real", "sdks"}
    extras = project["optional-dependencies"]
    assert set(listed) == set(extras) - for_contributors
    assert all(extras[name][0].startswith(package.lower()) for name, package in listed.items())
    assert all(f"`{name}`" in page for name in for_contributors)
    assert f"dragoman-{project['version']}-py3-none-any.whl" in page


@pytest.fixture(scope="module")
def reference() -> Iterator[dict[str, str]]:
    """The pages of the reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "docs" / "site"), *sys.path])
        yield importlib.import_module("reference").pages()


def test_the_reference_has_every_public_name(reference: dict[str, str]) -> None:
    pages = "\n".join(text for name, text in reference.items() if name.startswith("api/") or name == "errors")
    headings = re.findall(r"^## (\w+)$", pages, re.MULTILINE)
    assert {*dragoman.__all__, *dragoman.testing.__all__} - set(headings) == set()
    assert [name for name in set(headings) if headings.count(name) > 1] == []


def test_the_reference_has_every_option_with_its_meaning(reference: dict[str, str]) -> None:
    for page, options in (("api/calls", CallOptions), ("api/agents", AgentOptions)):
        rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", reference[page], re.MULTILINE))
        assert [name for name in options.__annotations__ if not rows.get(name, "").strip()] == [], page


def test_the_reference_has_a_text_for_every_field(reference: dict[str, str]) -> None:
    pages = "\n".join(text for name, text in reference.items() if name.startswith("api/"))
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", pages, re.MULTILINE)
    assert len(rows) > 500
    assert [name for name, text in rows if not text.strip()] == []
    sections = re.findall(r"^##+ (.*?)$(.*?)(?=^##+ |\Z)", pages, re.MULTILINE | re.DOTALL)
    assert len(sections) > 300
    bare = [
        name for name, text in sections if not re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).strip()
    ]
    assert bare == []


def test_the_reference_has_every_error_with_what_to_do(reference: dict[str, str]) -> None:
    sections = re.split(r"^## ", reference["errors"], flags=re.MULTILINE)
    cures = {section.split("\n", 1)[0] for section in sections if "**What to do:** " in section}
    values = [getattr(dragoman, name) for name in dragoman.__all__]
    errors = {each.__name__ for each in values if isinstance(each, type) and issubclass(each, Exception)}
    assert errors - cures == set()


def test_the_reference_has_every_flag_of_every_command(reference: dict[str, str]) -> None:
    sections = dict(
        re.findall(r"^## dragoman (\S+)\n(.*?)(?=^## |\Z)", reference["commands"], re.MULTILINE | re.DOTALL)
    )
    assert set(sections) == set(COMMANDS)
    for command, text in sections.items():
        shown = [action for action in parser_of(command)._actions if action.help != SUPPRESS]
        assert [flag for action in shown for flag in action.option_strings if flag not in text] == [], command
        assert "examples:" in text, command
        assert [line for line in text.splitlines() if len(line) > 80] == [], command


def test_the_reference_has_every_metric_and_every_provider(reference: dict[str, str]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.*) \|$", reference["metrics"], re.MULTILINE))
    assert {family.name for family in Metrics().families} == {name for name, text in rows.items() if text}
    assert {name.removeprefix("providers/") for name in reference if name.startswith("providers/")} == {
        *PROVIDERS,
        "index",
    }


def test_the_reference_has_every_setting_of_the_file_and_no_other(reference: dict[str, str]) -> None:
    page = reference["settings"]
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert {heading.strip("[]").partition(".")[0] for heading in headings} == set(TABLES)
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if len(row) != 4 or not all(map(str.strip, row))] == []
    names = {row[0].strip("`") for row in rows}
    assert names >= {"like", "targets", "api_keys", "retention", "hash", "when_all_cooling_down"}
    assert names & {"team_record", "created_at", "http_client", "credential", "classify", "call_deltas"} == set()
    assert "Annotated" not in page


def test_the_reference_has_every_attribute_of_an_error(reference: dict[str, str]) -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", reference["errors"], re.MULTILINE))
    errors = [getattr(dragoman, name) for name in dragoman.__all__]
    kinds = [each for each in errors if isinstance(each, type) and issubclass(each, dragoman.DragomanError)]
    attributes = {name for kind in kinds for name in vars(kind("no"))}
    assert {name for name in attributes if not name.startswith("_")} | {"target", "http_status"} <= listed


def test_a_chapter_of_the_reference_begins_with_what_users_need(reference: dict[str, str]) -> None:
    def names(page: str) -> list[str]:
        return re.findall(r"^## `?(\w+)", reference[f"api/{page}"], re.MULTILINE)

    assert names("streams")[:3] == ["Stream", "AsyncStream", "TextDelta"]
    assert names("streams")[-1] == "Assembler"
    assert names("testing")[0] == "Scripted"


def test_the_examples_of_the_reference_import_what_they_use(reference: dict[str, str]) -> None:
    for name, page in reference.items():
        for block in re.findall(r"^```pycon\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            used = re.findall(r">>> .*?\b(Registry|Scripted|tool_of|wire_of|Target)\(", block)
            assert [each for each in used if not re.search(rf"import .*\b{each}\b|class {each}", block)] == [], name


def test_the_reference_lists_every_route_of_the_gateway(reference: dict[str, str]) -> None:
    page = reference["http-api"]
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    table = App(Runtime(decode_config("", {}), {})).table()
    listed = {
        (method.strip("`"), path.strip(" `").removesuffix("`{.long}"))
        for _, methods, path, *_ in rows
        for method in methods.split()
    }
    assert {(route.method, route.path) for route, _ in table} == listed
