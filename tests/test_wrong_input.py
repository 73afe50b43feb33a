"""Wrong input to everything public: only errors of our tree, each naming the parameter and what to write."""

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dragoman
from dragoman import (
    Agent,
    DragomanError,
    Image,
    InvalidRequest,
    Registry,
    embed,
    errors,
    messages_from,
    model,
    schema_of,
    tool_results,
    user,
)
from dragoman.testing import Scripted
from tests.support import wrong_input
from tests.support.wrong_input import LEFT_OUT, PYTHONS_NAMES, SECRET, Case

CASES = [*wrong_input.cases()]
UNMEASURED = pytest.mark.no_cover
"""For calls that go through all layers: the direct tests of the pure ones cover their lines."""
TRIED = [
    pytest.param(
        case, marks=UNMEASURED if case.options or case.name.startswith(("Agent", "Registry", "testing.")) else ()
    )
    for case in CASES
]


@pytest.mark.parametrize("case", TRIED, ids=lambda case: case.name)
def test_a_wrong_value_is_an_error_that_names_its_parameter(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be taken as the path of a file to write
    with wrong_input.time_limits():
        problems = [
            f"{parameter}={label}: {problem}"
            for parameter, label, value in wrong_input.trials(case)
            if (problem := wrong_input.outcome(case, parameter, value)) is not None
        ]
    assert problems == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_values_are_accepted(case: Case) -> None:
    """Otherwise the error of a trial could be that of another parameter."""
    result = case.function(case.right)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    wrong_input.close(result)


STRUCTS = [
    (name, value)
    for name, value in wrong_input.public()
    if name not in LEFT_OUT and inspect.isclass(value) and issubclass(value, msgspec.Struct)
]


@pytest.mark.parametrize(("name", "struct"), STRUCTS, ids=[name for name, _ in STRUCTS])
def test_a_wrong_name_of_a_parameter_is_an_error_that_names_it(name: str, struct: Any) -> None:
    right = wrong_input.case(name, struct).right
    with pytest.raises(InvalidRequest, match="has no parameter no_such_thing; ") as caught:
        struct(**right, no_such_thing=1)
    assert caught.value.param == "no_such_thing"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    for parameter in required:
        with pytest.raises(InvalidRequest, match=f"^{parameter} must be passed to {struct.__name__}") as caught:
            struct(**{key: value for key, value in right.items() if key != parameter})
        assert caught.value.param == parameter


def _has_our_names(case: Case) -> bool:
    kind = getattr(errors, case.name.rpartition(".")[2], None)
    is_error = inspect.isclass(kind) and issubclass(kind, BaseException)
    return not is_error and case.name not in PYTHONS_NAMES and case.name.partition(".")[0] not in PYTHONS_NAMES


@pytest.mark.parametrize("case", [*filter(_has_our_names, CASES)], ids=lambda case: case.name)
def test_an_unknown_parameter_is_an_error_that_names_it(case: Case) -> None:
    def call() -> None:
        result = case.function({**case.right, "no_such_thing": 1})
        if inspect.iscoroutine(result):
            asyncio.run(result)

    with pytest.raises(DragomanError, match=r"no_such_thing") as caught:
        call()
    assert caught.value.param == "no_such_thing"
    assert re.search(r"has no (parameter|option)|^unknown ([a-z]+ )?(option|field|capability)", str(caught.value))


OWN_NAMES = ("stream", "spec", "model", "prompt", "request", "options", "targets", "plan", "data", "wire")
"""Names of parameters inside the library, which a caller may take for options."""


WITH_OPTIONS = [case for case in CASES if case.options and not case.name.startswith("testing.")]


@pytest.mark.parametrize("case", WITH_OPTIONS, ids=lambda case: case.name)
def test_a_name_of_a_parameter_inside_the_library_is_an_error_that_names_it(case: Case) -> None:
    for name in OWN_NAMES:
        if name not in {*case.right, *case.parameters, *case.options}:
            with pytest.raises(DragomanError, match=name) as caught:
                wrong_input.call(case, {name: 1})
            assert caught.value.param == name


def _any(value: object) -> Any:
    return value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _any(user)(content="hi"), "user has no parameter content; write user(…) without a name"),
        (
            lambda: _any(tool_results)(results=[]),
            "tool_results has no parameter results; write tool_results(…) without",
        ),
        (lambda: _any(Image.from_path)(file="a.png"), "Image.from_path has no parameter file; write path="),
        (_any(Image.from_path), "path must be passed to Image.from_path, got nothing; write path="),
        (
            lambda: _any(Image.from_path)("a.png", path="b.png"),
            "path must be passed once, got it by position and by name",
        ),
        (
            lambda: _any(Image.from_path)("a.png", "low"),
            "Image.from_path must be called with names, got too many values",
        ),
        (lambda: _any(Registry)("k"), "Registry must be called with names, got too many values without; write "),
        (lambda: _any(Registry)(apikey="k"), "Registry has no parameter apikey; did you mean api_key?"),
        (lambda: _any(schema_of)(hint=int), "schema_of has no parameter hint; write schema_of(…) without a name"),
        (_any(schema_of), "hint must be passed to schema_of, got nothing"),
        (lambda: _any(messages_from)([], provider="openai"), "messages_from has no parameter provider; write wire="),
        (_any(Agent), "model must be passed to Agent, got nothing; write model="),
        (_any(Agent("demo/any").run), "prompt must be passed to Agent.run, got nothing; write prompt="),
        (lambda: _any(embed)("demo/any"), "texts must be passed to embed, got nothing; write texts="),
        (
            lambda: _any(model("demo/any").embed)("a", timeout=1),
            "Model.embed has no parameter timeout; it must be one of",
        ),
        (lambda: _any(Scripted)(answers=["a"]), "Scripted has no parameter answers; "),
        (lambda: _any(embed)(timeout=3), "model must be passed to embed, got nothing; write model="),
        (_any(model), "spec must be passed to model, got nothing; write spec="),
        (lambda: _any(model)("demo/any", "hi"), "model must be called with names, got too many values without; write "),
        (_any(dragoman.batch), "model must be passed to batch, got nothing; write model="),
        (lambda: _any(dragoman.tool)(len, "length"), "tool must be called with names, got too many values without"),
    ],
)
def test_a_wrong_call_of_a_function_says_what_to_write(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}") as caught:
        call()
    assert caught.value.param is not None
    assert caught.value.__suppress_context__


GENERATE = "generate agenerate stream astream explain count_tokens acount_tokens".split()
EXTRACT = "extract aextract stream_extract astream_extract".split()
ASYNC = {"aembed": "texts", "arerank": "documents", "abatch": "rows"}
MISSING = [
    *((dragoman, name, (), "model") for name in (*GENERATE, *EXTRACT, *ASYNC, "alist_models", "aprobe")),
    *((dragoman, name, ("demo/any",), "prompt") for name in GENERATE),
    *((dragoman, name, ("demo/any", bool), "prompt") for name in EXTRACT),
    *((dragoman, name, ("demo/any",), parameter) for name, parameter in ASYNC.items()),
    *((model("demo/any"), name, (), "prompt") for name in GENERATE),
    *((model("demo/any"), name, (bool,), "prompt") for name in EXTRACT),
    *((model("demo/any"), name, (), parameter) for name, parameter in ASYNC.items()),
    (Agent("demo/any"), "arun", (), "prompt"),
    (Agent("demo/any"), "astream", (), "prompt"),
]


@pytest.mark.parametrize(
    ("owner", "name", "values", "parameter"),
    [pytest.param(*each, id=f"{type(each[0]).__name__}.{each[1]} {each[3]}") for each in MISSING],
)
def test_a_missing_value_is_an_error_that_names_its_parameter(
    owner: Any, name: str, values: tuple[Any, ...], parameter: str
) -> None:
    function = getattr(owner, name)
    required = inspect.signature(function).parameters[parameter]
    assert required.default is required.empty

    def call() -> None:
        result = function(*values)
        if inspect.iscoroutine(result):
            asyncio.run(result)

    with pytest.raises(DragomanError, match=f"^{parameter} must be ") as caught:
        call()
    assert caught.value.param == parameter


def test_a_missing_type_is_an_error_that_names_its_parameter() -> None:
    with pytest.raises(InvalidRequest, match=r"^output_type must be a type, got None; use a dataclass"):
        _any(dragoman.extract)("demo/any", prompt="Is it so?")


def test_a_value_that_is_not_a_type_is_an_error_that_names_its_parameter() -> None:
    order = "output_type must be a type, got 'How many?'; the type comes before the prompt: extract(int, 'How many?')"
    with pytest.raises(InvalidRequest, match=f"^{re.escape(order)}$"):
        _any(dragoman.extract)("demo/any", "How many?", int)
    with pytest.raises(InvalidRequest, match=r"^output must be a type, got 'int'; use a dataclass"):
        dragoman.generate("demo/any", "hi", output="int")
    with pytest.raises(InvalidRequest, match=r"^output must be a type, got 'int'; use a dataclass"):
        Agent("demo/any", output="int")


def test_a_type_error_of_the_callers_code_stays_as_it_is() -> None:
    class Broken:
        def __iter__(self) -> Any:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        messages_from(_any(Broken()))


def test_what_is_left_out_exists() -> None:
    names = {name for name, _ in wrong_input.public()}
    methods = {name for name in LEFT_OUT if "()" in name}
    assert {*LEFT_OUT} - methods <= names


@pytest.mark.parametrize(
    "error",
    [
        TypeError("raw"),
        DragomanError("a must be an int, got 1"),
        InvalidRequest("a must be an int, got 1", param="b"),
        InvalidRequest("a must be an int,\ngot 1", param="a"),
        InvalidRequest("wrong", param="a"),
        DragomanError("a must be an int, got 1", param="a"),
    ],
    ids=["raw", "nameless", "of another parameter", "two lines", "no advice", "of another kind"],
)
def test_the_fuzz_finds_an_error_that_is_not_as_it_should_be(error: Exception) -> None:
    def fail(_: object) -> None:
        raise error

    assert wrong_input.outcome(Case("broken", fail, {}, ("a",)), "a", 1) is not None


def test_the_fuzz_finds_a_secret_and_a_value_that_cannot_be_written() -> None:
    def leak(_: object) -> None:
        error = InvalidRequest("x", param="a")
        raise error.annotate(message=f"a must be short, got {SECRET}")

    def accept(_: object) -> Any:
        from dragoman.types import Text

        return Text(text="a", extra={"x": object()})

    for function in (leak, accept):
        assert wrong_input.outcome(Case("broken", function, {}, ("a",)), "a", 1) is not None
