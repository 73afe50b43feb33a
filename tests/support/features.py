"""What each provider gets: `python -m tests.support.features` prints the table of docs/providers.md.

No cell is written by hand. For each provider and feature, the code that a real call uses encodes a request, without a
network. The cell says whether the feature was sent as it is, adapted with a notice, or refused. `changes` has the
notices and refusals of one provider, for its page of the site.
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
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PLACE = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}
YES, ADAPTED, NO = "yes", "adapted", "no"
REFUSED = "refused"


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


REQUESTS: dict[str, Request] = {
    "tools": request_with(tools=(TIDE,)),
    "forced call": request_with(tools=(TIDE,), tool_choice="required"),
    "named call": request_with(tools=(TIDE, NOW), tool_choice="tide"),
    "schema": request_with(schema=SCHEMA, schema_mode="auto"),
    "images": request_with(Image(data=picture(), mime="image/png")),
    "image URLs": request_with(Image(url="https://example.org/a.png")),
    "PDF": request_with(Document(data=b"%PDF-1.7\n%%EOF\n", mime="application/pdf")),
    "audio": request_with(Audio(data=b"RIFF\x24\0\0\0WAVEfmt ", mime="audio/wav")),
    "effort": request_with(reasoning="high"),
    "seed": request_with(seed=7),
    "stop": request_with(stop=("END",)),
}
"""The features of the table that are part of a request."""
ENDPOINTS: dict[str, Callable[[Target], str]] = {
    "token count": endpoint(lambda target: wires.get(target.wire).endpoints.encode_tokens(request_with(), target)),
    "models": endpoint(lambda target: wires.get(target.wire).endpoints.encode_models(target)),
}
FEATURES = {name: generation(request) for name, request in REQUESTS.items()} | ENDPOINTS
MORE_REQUESTS: dict[str, Request] = {
    "no `max_tokens`": Request(messages=(user("How high is the tide?"),)),
    '`tool_choice="none"`': request_with(tools=(TIDE,), tool_choice="none"),
    "`parallel_tool_calls=False`": request_with(tools=(TIDE,), parallel_tool_calls=False),
    "tools and a schema": request_with(tools=(TIDE,), schema=SCHEMA, schema_mode="auto"),
    "office files": request_with(Document(data=b"PK\x03\x04 a docx", mime=DOCX, name="a.docx")),
    "text files": request_with(Document(data=b"port,metres", mime="text/csv", name="tides.csv")),
    "`temperature` and `top_p`": request_with(temperature=0.5, top_p=0.5),
    "`top_k`": request_with(top_k=40),
    "`frequency_penalty`": request_with(frequency_penalty=0.5),
    "`presence_penalty`": request_with(presence_penalty=0.5),
    "`logit_bias`": request_with(logit_bias={"50256": -100}),
    "`logprobs`": request_with(logprobs=True),
    "`n`": request_with(n=2),
    "`service_tier`": request_with(service_tier="flex"),
    "`verbosity`": request_with(verbosity="low"),
    "`reasoning=2000`": request_with(reasoning=2000),
    '`reasoning="none"`': request_with(reasoning="none"),
    "`cache`": request_with(cache=True),
    "`raw`": request_with(raw=True),
    "`suffix`": request_with(suffix="."),
    "`user`": request_with(user="ann"),
    "`metadata`": request_with(metadata={"team": "tides"}),
}
"""Features that only the page of a provider lists."""


def changes(name: str) -> Iterator[tuple[str, str, str]]:
    """What a provider does not get as it is: the feature, `refused` or the kind of the notice, and the reason."""
    target = target_of(name)
    for feature, request in (REQUESTS | MORE_REQUESTS).items():
        try:
            notices = build_request(request, target).notices
        except DragomanError as error:
            yield feature, REFUSED, error.message
        else:
            for notice in notices:
                why = notice.why.removeprefix(f"{target.wire}: ").removeprefix(f"{target.name}: ")
                is_one_of_several = f"`{notice.what}`" in feature and feature != f"`{notice.what}`"
                yield feature, notice.kind, f"`{notice.what}` is {notice.kind}: {why}" if is_one_of_several else why


def target_of(name: str) -> Target:
    """A model about which nothing is known, at a provider."""
    try:
        return Registry(env=PLACE, api_key="k").target(f"{name}/some-model")
    except SetupError:  # it has no default base URL
        return Registry(env={f"LLM_{name.upper().replace('-', '_')}": f"{name}://k@example.org"}).target(f"{name}/m")


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
    lines += [
        f"| {target.provider} | {target.wire} | {' | '.join(row(target))} |"
        for target in map(target_of, Registry(env={}).providers())
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
