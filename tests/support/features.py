"""The table of what each provider gets: `python -m tests.support.features` prints it for docs/providers.md.

No cell is written by hand. For each provider and feature, the code that a real call uses encodes a request, without a
network. The cell says whether the feature was sent as it is, adapted with a notice, or refused.
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
PLACE = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}
YES, ADAPTED, NO = "yes", "adapted", "no"


def request_with(*parts: Part, **fields: object) -> Request:
    return Request(messages=(user(Text(text="How high is the tide?"), *parts),), max_tokens=2000, **fields)  # type: ignore[arg-type]  # fields of a Request


def generation(request: Request) -> Callable[[Target], str]:
    """Encode a request: it is sent as it is, or adapted with a notice."""

    def judge(target: Target) -> str:
        return ADAPTED if build_request(request, target).notices else YES

    return judge


def endpoint(encode: Callable[[Target], object]) -> Callable[[Target], str]:
    """Encode a request of an endpoint, which raises if the wire does not have it."""

    def judge(target: Target) -> str:
        encode(target)
        return YES

    return judge


FEATURES: dict[str, Callable[[Target], str]] = {
    "tools": generation(request_with(tools=(TIDE,))),
    "forced call": generation(request_with(tools=(TIDE,), tool_choice="required")),
    "named call": generation(request_with(tools=(TIDE, NOW), tool_choice="tide")),
    "schema": generation(request_with(schema=SCHEMA, schema_mode="auto")),
    "images": generation(request_with(Image(data=picture(), mime="image/png"))),
    "image URLs": generation(request_with(Image(url="https://example.org/a.png"))),
    "PDF": generation(request_with(Document(data=b"%PDF-1.7\n%%EOF\n", mime="application/pdf"))),
    "audio": generation(request_with(Audio(data=b"RIFF\x24\0\0\0WAVEfmt ", mime="audio/wav"))),
    "effort": generation(request_with(reasoning="high")),
    "seed": generation(request_with(seed=7)),
    "stop": generation(request_with(stop=("END",))),
    "token count": endpoint(lambda target: wires.get(target.wire).endpoints.encode_tokens(request_with(), target)),
    "models": endpoint(lambda target: wires.get(target.wire).endpoints.encode_models(target)),
}


def targets() -> Iterator[Target]:
    """A model about which nothing is known, at every provider."""
    registry = Registry(env=PLACE, api_key="k")
    for name in registry.providers():
        try:
            yield registry.target(f"{name}/some-model")
        except SetupError:  # it has no default base URL
            yield Registry(env={f"LLM_{name.upper().replace('-', '_')}": f"{name}://k@example.org"}).target(f"{name}/m")


def row(target: Target) -> list[str]:
    return [_cell(judge, target) for judge in FEATURES.values()]


def _cell(judge: Callable[[Target], str], target: Target) -> str:
    try:
        return judge(target)
    except DragomanError:
        return NO


def table() -> str:
    """The table in Markdown."""
    lines = [f"| provider | wire | {' | '.join(FEATURES)} |", "|---|---|" + "---|" * len(FEATURES)]
    lines += [f"| {target.provider} | {target.wire} | {' | '.join(row(target))} |" for target in targets()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
