"""What docstrings say of parameters, in the manners of Google, NumPy and Sphinx."""

import pytest

from dragoman.tools.docstrings import parse_docstring

GOOGLE = """Tide height
    at a port.

    More: words.

    Args:
        port (str, optional): The name
            of the port.

        day: The day: 1 to 31.
        *rest: Others.
        silent:

    Returns:
        height: A number.
    """
NUMPY = """Tide height
    at a port.

    Parameters
    ----------
    port : str, optional
        The name
        of the port.
    day : {1, 2}
        The day: 1 to 31.
    rest
        Others.
    silent : int

    Returns
    -------
    height : float
        A number.
    """
SPHINX = """Tide height
    at a port.

    :param port: The name
        of the port.
    :type port: str
    :param int day: The day: 1 to 31.
    :param rest: Others.
    :param silent:
    :returns: A number.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_three_manners_say_the_same(docstring: str) -> None:
    info = parse_docstring(docstring)
    assert info.summary == "Tide height at a port."
    assert info.parameters == {"port": "The name of the port.", "day": "The day: 1 to 31.", "rest": "Others."}


def test_a_type_may_have_parentheses_of_its_own() -> None:
    info = parse_docstring("Go.\n\nArgs:\n    x (tuple(int, int), optional): Where.\n    f (Callable[[], None]): What.")
    assert info.parameters == {"x": "Where.", "f": "What."}


def test_one_description_may_serve_two_parameters() -> None:
    assert parse_docstring("Go.\n\nParameters\n----------\nx, y : float\n    Where.").parameters == {
        "x": "Where.",
        "y": "Where.",
    }


def test_a_word_at_the_margin_ends_a_description() -> None:
    assert parse_docstring("Go.\n\n:param x: Where.\nAnd on.").parameters == {"x": "Where."}


@pytest.mark.parametrize(
    "docstring", ["Go.\nArgs:\n    x: Where.", "Go.\n:param x: Where.", "Go.\nParameters\n---\nx\n    Where."]
)
def test_the_summary_ends_where_the_parameters_begin(docstring: str) -> None:
    info = parse_docstring(docstring)
    assert info.summary == "Go."
    assert info.parameters == {"x": "Where."}


@pytest.mark.parametrize("docstring", [None, "", "   "])
def test_nothing_says_nothing(docstring: str | None) -> None:
    info = parse_docstring(docstring)
    assert (info.summary, info.parameters) == ("", {})


def test_a_heading_at_the_end_has_no_parameters() -> None:
    assert parse_docstring("Go.\n\nArgs:").parameters == {}
    assert parse_docstring("Go.\n\nParameters\n----------").parameters == {}
