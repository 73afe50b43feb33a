"""Translate a request and a stream between dialects, without a key and without a network.

The client speaks one dialect, and each provider gets the request in its own. The stream of the provider is decoded into
events, and encoded again in the dialect of the client.
"""

import json

from dragoman import wires
from dragoman.events import fold
from dragoman.http import HttpRequest
from dragoman.targets.providers import target

REQUEST = {
    "model": "any",
    "stream": True,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How high is the tide in Brest and in Cork?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "tide",
                "description": "Tide height at a port, in metres",
                "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
            },
        }
    ],
    "tool_choice": "required",
    "seed": 7,
}

STREAM = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":31}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Looking up "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"both."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"tide"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"port\\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\\"Brest\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":24}}

event: message_stop
data: {"type":"message_stop"}

"""

TARGETS = ("anthropic/claude-x", "google/gemini-x", "ollama/qwen-x", "openai-responses/gpt-x")


def main() -> None:
    client = wires.get("openai_chat")
    http = HttpRequest(method="POST", path="/v1/chat/completions", body=json.dumps(REQUEST).encode())
    _, request = client.server.decode_request(http)
    print("A Chat Completions request\n")
    print(json.dumps(REQUEST, indent=2))
    for spec in TARGETS:
        destination = target(spec, api_key="secret")
        http_request = wires.get(destination.wire).client.encode_request(request, destination)
        print(f"\n--- the request for {spec}: {http_request.method} {http_request.url}\n")
        print(json.dumps(json.loads(http_request.body), indent=2))
        for notice in http_request.notices:
            print(f"notice: {notice.kind} {notice.what}: {notice.why}")

    decoder = wires.get("anthropic").client.stream_decoder(request)
    events = decoder.feed(STREAM) + decoder.feed(b"")
    print("\n--- the Messages stream of Anthropic, as events\n")
    for event in events:
        print(event)
    response = fold(events)
    print(f"\ntext {response.text!r}, calls {[(call.name, call.arguments) for call in response.tool_calls]}")
    finish, usage = response.finish, response.usage
    print(f"finish {finish.reason} ({finish.raw}), {usage.input} tokens in, {usage.output} out")
    print("\n--- the same stream in the dialect of the client\n")
    encoder = client.server.stream_encoder(request)
    print(b"".join(encoder.feed(event) for event in events).decode())


if __name__ == "__main__":
    main()
