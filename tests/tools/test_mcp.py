"""Tools of a real MCP server of the official SDK: over stdio and over streamable HTTP, blocking and async."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ConnectFailed, Document, Image, SetupError, Text, Toolbox, ToolCall, ToolResult
from dragoman.testing import Scripted
from dragoman.tools.mcp import McpSession
from tests.support.paths import TESTS

SERVER = TESTS / "support" / "mcp_server.py"
STDIO = (sys.executable, str(SERVER), "stdio")
ODD = (sys.executable, str(SERVER), "odd")
NAMES = ["tide", "harbour_depth", "chart", "drawing", "storm", "wait", "crash", "report"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, str(SERVER), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            assert child.stdout is not None
            yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
        finally:
            child.kill()


@pytest.fixture(scope="module", params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> Any:
    return STDIO if request.param == "stdio" else request.getfixturevalue("url")


@pytest.fixture(scope="module")
def box(server: Any) -> Iterator[Toolbox]:
    with Toolbox.from_mcp(server) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("dragoman-loop")]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="call_1", name=name, arguments=arguments)


def test_a_servers_tools_are_tools(box: Toolbox) -> None:
    assert [one.name for one in box] == NAMES
    tide = box.tools[0]
    assert tide.description == "Tide height at a port."
    assert tide.parameters is not None
    assert tide.parameters["required"] == ["port"]


def test_results_come_as_text_images_and_documents(box: Toolbox) -> None:
    result = ToolResult(id="call_1", name="tide", content="4.2 m in Brest on day 1")
    assert box.execute(call("tide", port="Brest")) == result
    assert "12.5" in box.execute(call("harbour_depth", port="Brest")).text
    (chart,) = box.execute(call("chart")).parts
    assert isinstance(chart, Image)
    assert chart.mime == "image/png"
    assert (chart.data or b"").startswith(b"\x89PNG")
    words, page, low, link, sound = box.execute(call("report")).parts
    assert (words, low) == (Text(text="See:"), Text(text="Low water."))
    assert page == Document(data=b"%PDF", mime="application/pdf")
    assert link == Text(text="[log: file:///log.txt]")
    assert isinstance(sound, Text)


def test_a_picture_that_is_none_is_told_as_an_error(box: Toolbox) -> None:
    result = box.execute(call("drawing"))
    assert result.is_error
    assert result.text == "See:\n[left out: an image is of an unknown type]"


def test_errors_of_a_server_are_error_results(box: Toolbox) -> None:
    failed = box.execute(call("storm"))
    assert failed.is_error
    assert "too much wind" in failed.text
    assert "required" in box.execute(call("tide")).text


def test_awaiting_opens_and_closing_ends(server: Any) -> None:
    async def main() -> tuple[ToolResult, ToolResult]:
        box = await Toolbox.from_mcp(server)
        first = await box.aexecute(call("tide", port="Brest"))
        await box.aclose()
        await box.aclose()
        return first, await box.aexecute(call("tide", port="Brest"))

    first, second = asyncio.run(main())
    assert first.text == "4.2 m in Brest on day 1"
    assert second.is_error
    assert "the connection is closed" in second.text


def test_many_calls_run_at_once(box: Toolbox) -> None:
    async def main() -> list[ToolResult]:
        return await asyncio.gather(*(box.aexecute(call("tide", port="Brest", day=day)) for day in range(8)))

    assert [result.text for result in asyncio.run(main())] == [f"4.2 m in Brest on day {day}" for day in range(8)]


def test_an_agent_uses_a_servers_tools_from_any_loop_and_from_none(box: Toolbox) -> None:
    lines = ((call("tide", port="Brest"), ToolCall(id="call_2", name="chart")), "4.2 m.")
    script = Scripted(*lines, *lines)
    agent = Agent(script.model("anthropic"), tools=[box])
    for result in (agent.run("How high?"), asyncio.run(agent.arun("How high?"))):
        assert result.output == "4.2 m."
        assert result.steps[0].results[0].text == "4.2 m in Brest on day 1"
        assert isinstance(result.steps[0].results[1].parts[0], Image)


def test_a_toolbox_outlives_the_loop_that_opened_it(server: Any) -> None:
    async def opened() -> Toolbox:
        return await Toolbox.from_mcp(server)

    with asyncio.run(opened()) as box:
        assert not box.execute(call("tide", port="Brest")).is_error


def test_a_call_may_be_cancelled_and_the_server_goes_on(box: Toolbox) -> None:
    async def main() -> ToolResult:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.aexecute(call("wait")), 0.1)
        return await box.aexecute(call("tide", port="Brest"))

    assert asyncio.run(main()).text == "4.2 m in Brest on day 1"


def test_a_tool_that_cannot_be_used_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="skipped a tool: two tools are named 'harbour_depth'"):
        box = Toolbox.from_mcp(ODD).__enter__()
    with box:
        assert [one.name for one in box] == NAMES


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_no_server_is_left_where_its_tools_are_refused(way: str) -> None:
    async def opened() -> Toolbox:
        return await Toolbox.from_mcp(ODD)

    before = threading.enumerate()
    with pytest.raises(UserWarning):  # warnings are errors here
        asyncio.run(opened()) if way == "async" else Toolbox.from_mcp(ODD).__enter__()
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(10.0)
    assert not any(thread.is_alive() for thread in left)


def test_a_command_may_be_one_line() -> None:
    with Toolbox.from_mcp(f"{sys.executable} '{SERVER}' stdio", env={"X": "1"}, cwd=SERVER.parent) as box:
        assert len(box) == len(NAMES)


def test_headers_go_to_a_url(url: str) -> None:
    with Toolbox.from_mcp(url, headers={"authorization": "Bearer x"}) as box:
        assert box.execute(call("tide", port="Brest")).text == "4.2 m in Brest on day 1"


def test_a_call_may_take_as_long_as_was_told(url: str) -> None:
    with Toolbox.from_mcp(url, timeout=0.1) as box:
        assert box.execute(call("wait")).text == "TimeoutError: no result within 0.1 s"


def test_a_server_that_dies_is_an_error_result() -> None:
    with Toolbox.from_mcp(STDIO) as box:
        assert box.execute(call("crash")).is_error


@pytest.mark.parametrize("server", ["no-such-command --x", "http://127.0.0.1:9/mcp?key=secret-1234"])
def test_no_server_is_told_without_secrets(server: Any) -> None:
    with pytest.raises(ConnectFailed) as caught, Toolbox.from_mcp(server):
        raise AssertionError
    assert "cannot list the tools" in caught.value.message
    assert "secret" not in caught.value.message


def test_a_program_that_is_no_server_is_told() -> None:
    async def main() -> None:
        await Toolbox.from_mcp([sys.executable, "-c", "pass"])

    with pytest.raises(ConnectFailed):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("python /home/o'brien/s.py", "no closing quotation.*; quote it"),
        (Path("server.py"), "a command or a URL, got the file"),
        ("http://localhost:80a/mcp", "an invalid host or port"),
        ("http://[::1/mcp", "an invalid host or port"),
        ("https:///mcp", "an invalid host or port"),
        ("ws://localhost/mcp", "must be a URL that starts with http:// or https://, got ws"),
        (" ", "got an empty command"),
        ([], "got an empty command"),
        ([""], "got an empty command"),
        (None, "or a URL, got NoneType"),
        ({"command": "python"}, "or a URL, got dict"),
        (["python", 3], "or a URL, got list"),
    ],
)
def test_a_mistyped_server_is_refused_at_once(server: Any, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SetupError, match=why), Toolbox.from_mcp(server):
        raise AssertionError

    async def main() -> None:
        await Toolbox.from_mcp(server)

    with pytest.raises(SetupError, match=why):
        asyncio.run(main())
    assert capfd.readouterr() == ("", "")


def test_a_refused_url_keeps_its_password() -> None:
    with pytest.raises(SetupError) as caught:
        Toolbox.from_mcp("http://me:hush/a@localhost/mcp")
    assert "hush" not in f"{caught.value!r}{caught.value.__cause__!r}"


def test_the_words_of_a_command_may_be_paths() -> None:
    with Toolbox.from_mcp([Path(sys.executable), SERVER, "stdio"]) as opened:
        assert len(opened) == len(NAMES)


def test_the_name_of_a_server_has_no_secret() -> None:
    assert McpSession("https://ann:secret@tides.example:8443/mcp?key=secret").name == "https://tides.example:8443/mcp"
    assert McpSession(["npx", "--token", "secret"]).name == "npx"


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SetupError, match=r"dragoman\[mcp\]"), Toolbox.from_mcp("x"):
        raise AssertionError
