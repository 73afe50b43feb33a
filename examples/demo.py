"""A tour in seven scenes: `make demo`. No key, no network, under 30 seconds.

The models are simulators of Claude, GPT and a server that breaks, on sockets of 127.0.0.1. Their answers are written
here, or computed from the results of the tools. Everything else is real: the requests and streams of each provider's
protocol, the tools and the files that they read, the images, the retries, and a gateway in a process of its own.
"""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import Any

from PIL import Image as Picture

import dragoman
from dragoman import Agent, Finish, Image, Registry, Request, Response, ToolCall, Usage, assistant, tool
from dragoman.testing import ClaudeSimulator, CloseAfter, FaultyServer, GptSimulator, Paced

WIDTH = max(60, min(96, shutil.get_terminal_size((96, 24)).columns))
LIVE = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
DELAY = 0.025 if LIVE else 0.0
"""Seconds between two words of a model. A log gets them at once."""
STARTED = time.perf_counter()
CLAUDE = "anthropic/claude-opus-4-8"
GPT = "openai-responses/gpt-5.6"


# The terminal ---------------------------------------------------------------------------------------------------------


DIM = "2"
YELLOW = "33"


def style(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if code and LIVE and not os.environ.get("NO_COLOR") else text


def bold(text: str) -> str:
    return style(text, "1")


def dim(text: str) -> str:
    return style(text, DIM)


def red(text: str) -> str:
    return style(text, "31")


def green(text: str) -> str:
    return style(text, "32")


def blue(text: str) -> str:
    return style(text, "36")


def yellow(text: str) -> str:
    return style(text, YELLOW)


def heading(number: int, title: str) -> None:
    clock = f"{time.perf_counter() - STARTED:5.1f} s"
    print(f"\n{bold(blue(f'{number}. {title}'))}{dim(clock.rjust(WIDTH - len(title) - 3))}")
    print(dim("─" * WIDTH))


def paragraph(text: str, code: str = "", *, first: str = "", others: str = "") -> None:
    """Print a text in lines that fit the terminal, after `first` and `others`."""
    lines = wrap(text, WIDTH - len(others), break_on_hyphens=False)
    print("\n".join((others if number else first) + style(line, code) for number, line in enumerate(lines)))


class Typist:
    """Prints a streamed text, and breaks its lines between words."""

    def __init__(self) -> None:
        self._column = 0

    def write(self, text: str) -> None:
        for word in text.split():
            if self._column + 1 + len(word) > WIDTH:
                self.end()
            print(f" {word}" if self._column else word, end="", flush=True)
            self._column += len(word) + (self._column > 0)

    def end(self) -> None:
        """Start a new line, if this one has text."""
        if self._column:
            print()
        self._column = 0


def receipt(response: Response) -> str:
    usage = response.usage
    return f"{response.target} · {usage.input} tokens in · {usage.output} out · finish: {response.finish.reason}"


# The simulators -------------------------------------------------------------------------------------------------------


def says(request: Request, *parts: str | ToolCall) -> Response:
    """An answer with a plausible number of tokens."""
    message = assistant(*parts)
    prompt = sum(len(each.text) + sum(len(one.text) for one in each.tool_results) for each in request.messages)
    answer = len(message.text) + sum(len(str(call.arguments)) for call in message.tool_calls)
    finish = Finish(reason="tool_calls" if message.tool_calls else "stop")
    return Response(message=message, finish=finish, usage=Usage(input=prompt // 4 + 9, output=answer // 4 + 1))


WIRES_ANSWER = (
    "A wire is the protocol that a provider speaks: the paths, the JSON of a request, the events of a stream and the "
    "form of an error. OpenAI, Anthropic and Google each have their own, and they disagree about almost everything. "
    "A library that knows the wire can send one conversation to all of them."
)
PICTURE_ANSWER = "A sunset over a calm sea: orange at the horizon, dark blue above, and the light on the water."
TIDE_ANSWER = "Spring tides come shortly after a new or full moon, when sun and moon pull in one line."


def claude_reply(request: Request) -> Response:
    """What the simulated Claude says to each question of this demo."""
    if request.tools:
        return says(request, *next_step(request))
    question = request.messages[-1].text
    lines = {"wire": WIRES_ANSWER, "picture": PICTURE_ANSWER, "spring tide": TIDE_ANSWER, "harbour": HARBOUR_ANSWER}
    return says(request, next(answer for word, answer in lines.items() if word in question))


def next_step(request: Request) -> tuple[str | ToolCall, ...]:
    """The next calls of the agent, chosen from the results so far."""
    results = [result for message in request.messages for result in message.tool_results]
    by_name = {result.name: result.text for result in results}
    if not results:
        return ("I will measure the packages first.", ToolCall(id="", name="count_lines", arguments={}))
    sizes: dict[str, int] = json.loads(by_name["count_lines"])
    first, second, *_ = sizes
    if "longest_file" not in by_name:
        calls = (ToolCall(id="", name="longest_file", arguments={"package": name}) for name in (first, second))
        return (f"{first} and {second} are the largest. I will look inside both.", *calls)
    files: list[str] = [json.loads(result.text)["file"] for result in results if result.name == "longest_file"]
    if "docstring" not in by_name:
        return (ToolCall(id="", name="docstring", arguments={"file": files[0]}),)
    share = 100 * sizes[first] // sum(sizes.values())
    subject = by_name["docstring"].rstrip(".")
    return (
        f"The largest package is {first} with {sizes[first]:,} lines, {share} % of the code; {second} follows with "
        f"{sizes[second]:,}. The longest file of {first} is {files[0]}. Its docstring says: “{subject}”.",
    )


INVOICE_ANSWER = {
    "number": "2026-0417",
    "supplier": "Atelier Kervella",
    "due": "2026-12-05",
    "items": [
        {"what": "mainsail, 38 m²", "count": 1, "price": 2840.0},
        {"what": "reefing line, 14 m", "count": 3, "price": 42.5},
        {"what": "delivery to Douarnenez", "count": 1, "price": 95.0},
    ],
    "total": 3062.5,
}


def gpt_reply(request: Request) -> Response:
    return says(request, json.dumps(INVOICE_ANSWER, ensure_ascii=False))


@contextmanager
def providers() -> Generator[dict[str, str]]:
    """Start the simulators, and return the environment that a program needs to reach them."""
    claude = ClaudeSimulator(reply=claude_reply, delay=DELAY)
    gpt = GptSimulator(reply=gpt_reply, delay=DELAY)
    broken = FaultyServer(CloseAfter(2600, Paced(HARBOUR_ANSWER, DELAY)), repeat=True)
    with claude.serve() as claude_server, gpt.serve() as gpt_server, broken:
        yield {
            "ANTHROPIC_API_KEY": "sk-ant-demo-0123456789",
            "ANTHROPIC_BASE_URL": claude_server.url,
            "OPENAI_API_KEY": "sk-demo-0123456789",
            "OPENAI_BASE_URL": gpt_server.url,
            "XAI_API_KEY": "xai-demo-0123456789",
            "CEREBRAS_API_KEY": "csk-demo-0123456789",
            "GROQ_API_KEY": "gsk-demo-0123456789",
            "LLM_HARBOUR": f"openai+http://127.0.0.1:{broken.port}",
        }


# The scenes -----------------------------------------------------------------------------------------------------------


def streamed_answer(registry: Registry) -> None:
    print(dim(f'model("{CLAUDE}").stream("What is a wire?")'))
    started = time.perf_counter()
    first = 0.0
    typist = Typist()
    with registry.model(CLAUDE).stream("What is a wire?") as stream:
        for text in stream.text_deltas():
            first = first or time.perf_counter() - started
            typist.write(text)
    typist.end()
    assert stream.response is not None
    paragraph(f"{receipt(stream.response)} · first word after {first * 1000:.0f} ms", DIM)


PACKAGE = Path(dragoman.__file__).parent


@tool
def count_lines() -> dict[str, int]:
    """Lines of code of each package, the largest first."""
    sizes: dict[str, int] = {}
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).parts[0]
        sizes[name] = sizes.get(name, 0) + file.read_text(encoding="utf-8").count("\n")
    return dict(sorted(sizes.items(), key=lambda item: -item[1])[:6])


@tool
def longest_file(package: str) -> dict[str, str | int]:
    """The longest file of a package."""
    size, file = max((each.read_text(encoding="utf-8").count("\n"), each) for each in (PACKAGE / package).rglob("*.py"))
    return {"file": file.relative_to(PACKAGE).as_posix(), "lines": size}


@tool
def docstring(file: str) -> str:
    """The first sentence of the docstring of a file."""
    return (PACKAGE / file).read_text(encoding="utf-8").removeprefix('"""').partition(".\n")[0].partition('"""')[0]


def agent_with_tools(registry: Registry) -> None:
    question = "Which package of this library has the most code, and what is its longest file about?"
    paragraph(question, first=f"{bold('you')}  ", others="     ")
    agent = Agent(registry.model(CLAUDE, reasoning="low"), tools=[count_lines, longest_file, docstring])
    typist = Typist()
    with agent.stream(question) as stream:
        for item in stream:
            match item:
                case dragoman.TextDelta():
                    typist.write(item.text)
                case dragoman.ToolStarted():
                    typist.end()
                    arguments = ", ".join(f"{key}={value!r}" for key, value in item.call.arguments.items())
                    print(f"  {yellow('→')} {item.call.name}({arguments})")
                case dragoman.ToolFinished():
                    took = dim(f"{item.duration * 1000:.0f} ms")
                    print(f"  {green('✓')} {item.call.name} {took}  {shorten(item.result.text, WIDTH - 32)}")
                case dragoman.StepFinished():
                    typist.end()
                case _:
                    continue
    result = stream.result
    usage = result.usage
    calls = sum(len(step.results) for step in result.steps)
    print(dim(f"{len(result.steps)} steps · {calls} tool calls · {usage.input} tokens in · {usage.output} out"))


LETTER = """\
Bonjour, please find our invoice 2026-0417 for the refit of your boat: the new mainsail (38 m²) at 2 840 €, three \
reefing lines of 14 m at 42,50 € each, and 95 € for the delivery to Douarnenez. That makes 3 062,50 €, payable until \
5 December 2026. Kenavo, Maël, Atelier Kervella"""


@dataclass
class Item:
    what: str
    count: int
    price: float


@dataclass
class Invoice:
    number: str
    supplier: str
    due: date
    items: list[Item]
    total: float


def typed_extraction(registry: Registry) -> None:
    paragraph(LETTER, first="│ ", others="│ ")
    print(dim(f'model("{GPT}").extract(Invoice, letter)'))
    invoice = registry.model(GPT).extract(Invoice, f"Read this letter:\n{LETTER}")
    print(f"Invoice {bold(invoice.number)} of {bold(invoice.supplier)}, due {invoice.due!r}")
    for item in invoice.items:
        print(f"  {item.count} x {item.what:<26}{item.price:>10.2f} €")
    agrees = sum(item.count * item.price for item in invoice.items) == invoice.total
    check = green("✓ the items add up") if agrees else red("✗ the items do not add up")
    print(f"  {'total':<30}{invoice.total:>10.2f} €  {check}")


COLOURS = ((40, 0.8), (30, 0.5), (120, -0.3))


def draw_sunset() -> bytes:
    """A panorama of 8400 by 600 pixels with the grain of a film."""
    size = (8400, 600)
    sky, grain = Picture.linear_gradient("L").resize(size), Picture.effect_noise(size, 24)
    bands = [sky.point([round(start + slope * v) for v in range(256)]) for start, slope in COLOURS]
    file = BytesIO()
    Picture.blend(Picture.merge("RGB", bands), grain.convert("RGB"), 0.3).save(file, "PNG", compress_level=1)
    return file.getvalue()


def fitted_image(registry: Registry) -> None:
    photo = draw_sunset()
    print(f"A panorama of 8400 by 600 pixels, PNG, {len(photo) / 1e6:.1f} MB, in a chain of four targets:")
    prompt: list[str | Image] = ["What is in this picture?", Image(data=photo)]
    for explanation in registry.model(f"cerebras/gpt-oss-120b, groq/llama-4-scout, {CLAUDE}, xai/grok-4.3").explain(
        prompt
    ):
        if explanation.request is None:
            print(f"  {red('✗')} {explanation.target:<28} {explanation.reason}")
            continue
        notices = [notice.why.partition(": ")[2] for notice in explanation.notices]
        first = f"  {green('✓')} {explanation.target:<28} "
        paragraph("; ".join(notices) or "sent unchanged", first=first, others=" " * 33)
    response = registry.model(CLAUDE).generate(prompt)
    paragraph(response.text)
    paragraph(receipt(response), DIM)


HARBOUR_ANSWER = (
    "Enter the harbour at half tide or later: the bar at its mouth has only 1.2 m at low water. Keep the red buoys to "
    "port, watch the current behind the north pier, and call the harbour master on channel 9."
)


def broken_stream(registry: Registry) -> None:
    chain = f"harbour/skipper-7b, {CLAUDE}"
    paragraph(f'model("{chain}", on_interrupt="restart").stream(…)', DIM)
    typist = Typist()
    with registry.model(chain, on_interrupt="restart").stream("How do I enter the harbour?") as stream:
        for item in stream:
            match item:
                case dragoman.TextDelta():
                    typist.write(item.text)
                case dragoman.Restarted():
                    typist.end()
                    print(red(f"✗ {item.previous} broke off"))
                    print(yellow(f"↻ {item.target} starts again"))
                case _:
                    continue
    typist.end()
    print(bold("The receipt:"), dim("response.attempts"))
    assert stream.response is not None
    for attempt in stream.response.attempts:
        mark = green("✓") if attempt.outcome == "served" else red("✗")
        print(f"  {mark} {attempt.target:<28} {attempt.outcome:<8}{attempt.duration or 0:.2f} s")
        if attempt.error:
            paragraph(attempt.error, DIM, first="    ", others="    ")


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


QUESTION = "When is the next spring tide?"
CHAT = {"model": CLAUDE, "messages": [{"role": "user", "content": QUESTION}]}
DIALECTS: tuple[tuple[str, str, dict[str, Any], Callable[[Any], str]], ...] = (
    ("OpenAI", "/v1/chat/completions", CHAT, lambda body: body["choices"][0]["message"]["content"]),
    ("Anthropic", "/v1/messages", {**CHAT, "max_tokens": 500}, lambda body: body["content"][-1]["text"]),
    (
        "Google",
        f"/v1beta/models/{CLAUDE}:generateContent",
        {"contents": [{"parts": [{"text": QUESTION}]}]},
        lambda body: body["candidates"][0]["content"]["parts"][-1]["text"],
    ),
    ("Ollama", "/api/chat", {**CHAT, "stream": False}, lambda body: body["message"]["content"]),
)
"""The name of a dialect, its path, its request, and where its answer is."""
HALF = WIDTH // 2


def four_dialects(environment: dict[str, str]) -> None:
    paragraph(f"dragoman serve, then one question to {CLAUDE}: {QUESTION!r}")
    with gateway(environment) as port:
        bodies = [post(port, path, request) for _, path, request, _ in DIALECTS]
    panels = [panel(name, path, body) for (name, path, *_), body in zip(DIALECTS, bodies, strict=True)]
    for left, right in zip(panels[::2], panels[1::2], strict=True):
        for (text, code), second in zip_longest(left, right, fillvalue=("", "")):
            print((style(text, code) + " " * (HALF - len(text)) + style(*second)).rstrip())
    answers = {place(body) for (*_, place), body in zip(DIALECTS, bodies, strict=True)}
    print(green("✓ four protocols, the same answer:") if len(answers) == 1 else red("✗ the answers differ:"))
    for answer in answers:
        paragraph(answer)


def panel(name: str, path: str, body: Any) -> list[tuple[str, str]]:
    """The lines of one dialect, each with its style."""
    text = json.dumps({key: value for key, value in body.items() if key not in {"id", "created"}}, ensure_ascii=False)
    lines = wrap(text, HALF - 3, break_on_hyphens=False)[:5]
    cut = [(line, "") for line in lines[:-1]] + [(lines[-1][: HALF - 4] + "…", "")]
    return [(name, "1"), (shorten(f"POST {path}", HALF - 3), DIM), *cut, ("", "")]


@contextmanager
def gateway(environment: dict[str, str]) -> Generator[int]:
    """Run the gateway in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    command = [sys.executable, "-m", "dragoman", "serve", "--port", str(port)]
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH", "SYSTEMROOT"}}
    process = subprocess.Popen(command, env={**kept, **environment}, stderr=subprocess.DEVNULL)  # noqa: S603 - our own command
    try:
        wait_until_ready(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("the gateway did not start; run `dragoman serve` to see why")


def post(port: int, path: str, request: dict[str, Any]) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, json.dumps(request), {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@tool
def tide(port: str) -> str:
    """Tide height at a port, in metres."""
    return f"4.2 m in {port}"


def bytes_of_each_provider() -> None:
    paragraph("One call with a system prompt, a tool, a seed and a reasoning effort. Nothing is sent:")
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    specs = (CLAUDE, GPT, "google/gemini-3-flash-preview", "ollama/qwen3:8b")
    model = Registry(env=keys).model(
        ",".join(specs), system="Be brief.", tools=[tide], seed=7, reasoning="low", max_tokens=2000
    )
    for explanation in model.explain("How high is the tide in Brest?"):
        assert explanation.request is not None
        print(bold(explanation.target))
        for text in (f"POST {explanation.request.url}", explanation.request.body.decode()):
            print("\n".join("  " + text[start : start + WIDTH - 2] for start in range(0, len(text), WIDTH - 2)))
        for notice in explanation.notices:
            paragraph(f"! {notice.kind}: {notice.what}: {notice.why}", YELLOW, first="  ", others="  ")


def main() -> None:
    print(bold("dragoman"), dim("· one Python API for every LLM provider, and a gateway for all"))
    paragraph(
        "The models are simulators, and their answers are part of this program. Everything else is real.",
        DIM,
    )
    with providers() as environment:
        registry = Registry(env=environment)
        scenes: tuple[tuple[str, Callable[[], None]], ...] = (
            ("A streamed answer", lambda: streamed_answer(registry)),
            ("An agent with tools, on the files of this checkout", lambda: agent_with_tools(registry)),
            ("A letter becomes a typed value", lambda: typed_extraction(registry)),
            ("One image, fitted to each target", lambda: fitted_image(registry)),
            ("A provider dies in mid-stream", lambda: broken_stream(registry)),
            ("One gateway, four protocols", lambda: four_dialects(environment)),
            ("The bytes that each provider would get", bytes_of_each_provider),
        )
        for number, (title, scene) in enumerate(scenes, 1):
            heading(number, title)
            scene()
        registry.close()
    print(f"\n{dim('Next: the README has the same calls with a provider of yours.')}")


if __name__ == "__main__":
    main()
