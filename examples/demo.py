"""A chat, a tool call, structured output and a failover.

It runs on the `demo` provider: no key, no network.
"""

import json

import dragoman
from dragoman import Tool, ToolResult, assistant, tool_results, user

TIDE = Tool(
    name="tide",
    description="Tide height at a port, in metres",
    parameters={"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
)
BILL = {
    "type": "object",
    "properties": {"payee": {"type": "string"}, "total": {"type": "number", "minimum": 0}},
    "required": ["payee", "total"],
    "additionalProperties": False,
}


def main() -> None:
    model = dragoman.model("demo/any")

    print("--- a chat, streamed")
    with model.stream("Which port has the highest tide?") as stream:
        for item in stream:
            match item:
                case dragoman.TextDelta():
                    print(item.text, end="", flush=True)
                case dragoman.Response():
                    print(f"\n[{item.finish.reason}, {item.usage.input} tokens in, {item.usage.output} out]")
                case _:
                    continue

    print("\n--- a tool call, and the answer with its result")
    question = user("How high is the tide in Brest?")
    response = model.generate([question], tools=[TIDE], tool_choice="required")
    call = response.tool_calls[0]
    print(f"{call.name}({json.dumps(call.arguments)})")
    result = ToolResult(id=call.id, name=call.name, content="4.2 m")
    print(model.generate([question, assistant(*response.message.parts), tool_results(result)], tools=[TIDE]).text)

    print("\n--- structured output")
    print(model.generate("A bill, please.", schema=BILL).text)

    print("\n--- a failover, and its attempts")
    response = dragoman.generate("demo/overloaded,demo/empty,demo/any", "Is anybody there?")
    print(response.text)
    for attempt in response.attempts:
        print(f"  {attempt.target}: {attempt.outcome}{f' ({attempt.error})' if attempt.error else ''}")


if __name__ == "__main__":
    main()
