"""The records of all providers in, the table of what each is sent out: `python -m tests.support.features` prints it.

Nobody writes a cell by hand. Each provider is asked for a feature by the code that would ask it in earnest, without a
network, and the cell says what became of that: sent as it is, sent in another way, or not.
"""

from collections.abc import Callable, Iterator

from dragoman import wires
from dragoman.engine.attempt import build_request
from dragoman.errors import DragomanError, SetupError
from dragoman.registry import Registry
from dragoman.targets.target import Target
from dragoman.types import Audio, Document, Image, Part, Request, Text, Tool, user
from tests.support.images import picture

TIDE = Tool(name="tide", description="Tide height at a port", parameters={"type": "object", "properties": {}})
NOW = Tool(name="now", description="The time")
SCHEMA = {
    "type": "object",
    "properties": {"metres": {"type": "number"}},
    "required": ["metres"],
    "additionalProperties": False,
}
YES, BENT, NO = "yes", "bent", "no"


def asked(*parts: Part, **fields: object) -> Request:
    return Request(messages=(user(Text(text="How high is the tide?"), *parts),), max_tokens=2000, **fields)  # type: ignore[arg-type]  # fields of a Request


def sent(request: Request) -> Callable[[Target], str]:
    """What becomes of a request: as it is, with a notice, or refused."""

    def judge(target: Target) -> str:
        return BENT if build_request(request, target).notices else YES

    return judge


def extra(ask: Callable[[Target], object]) -> Callable[[Target], str]:
    def judge(target: Target) -> str:
        ask(target)
        return YES

    return judge


FEATURES: dict[str, Callable[[Target], str]] = {
    "tools": sent(asked(tools=(TIDE,))),
    "forced call": sent(asked(tools=(TIDE,), tool_choice="required")),
    "named call": sent(asked(tools=(TIDE, NOW), tool_choice="tide")),
    "schema": sent(asked(schema=SCHEMA, schema_mode="auto")),
    "images": sent(asked(Image(data=picture(), mime="image/png"))),
    "image URLs": sent(asked(Image(url="https://example.org/a.png"))),
    "PDF": sent(asked(Document(data=b"%PDF-1.7\n%%EOF\n", mime="application/pdf"))),
    "audio": sent(asked(Audio(data=b"RIFF\x24\0\0\0WAVEfmt ", mime="audio/wav"))),
    "effort": sent(asked(reasoning="high")),
    "seed": sent(asked(seed=7)),
    "stop": sent(asked(stop=("END",))),
    "token count": extra(lambda target: wires.get(target.wire).endpoints.encode_tokens(asked(), target)),
    "models": extra(lambda target: wires.get(target.wire).endpoints.encode_models(target)),
}


def targets() -> Iterator[Target]:
    """A model that nothing is known of, at every provider."""
    registry = Registry(env={}, api_key="k")
    for name in registry.providers():
        try:
            yield registry.target(f"{name}/some-model")
        except SetupError:  # one without a place that all users share
            yield Registry(env={f"LLM_{name.upper().replace('-', '_')}": f"{name}://k@example.org"}).target(f"{name}/m")


def row(target: Target) -> list[str]:
    return [_cell(judge, target) for judge in FEATURES.values()]


def _cell(judge: Callable[[Target], str], target: Target) -> str:
    try:
        return judge(target)
    except DragomanError:
        return NO


def table() -> str:
    """The page's table, in Markdown."""
    lines = [f"| provider | wire | {' | '.join(FEATURES)} |", "|---|---|" + "---|" * len(FEATURES)]
    lines += [f"| {target.provider} | {target.wire} | {' | '.join(row(target))} |" for target in targets()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
