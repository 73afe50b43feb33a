"""Pieces of Markdown, and the texts that stand below the fields of a class in its source."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator


def code(text: str, language: str = "python") -> tuple[str, ...]:
    """A block of code."""
    return (f"```{language}", text, "```", "")


def cell_code(text: str) -> str:
    """Code in a cell of a table."""
    return f"`{text}`" if text else ""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A table. A bar inside a cell would end the cell, also in code."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        cells = (re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def field_texts(cls: type) -> dict[str, str]:
    """The strings that stand below the fields of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(inspect.getmro(cls)):
        if base.__module__.startswith("dragoman"):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(body, ast.ClassDef)
            for field, text in zip(body.body, body.body[1:], strict=False):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                        texts[name] = " ".join(words.split())
                    case _:
                        continue
    return texts
