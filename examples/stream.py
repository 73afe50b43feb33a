"""Streaming: blocking, async, and stopped early.

It runs on the `demo` provider: no key, no network.
"""

import asyncio

import dragoman
from dragoman import TextDelta, ThinkingDelta


def main() -> None:
    model = dragoman.model("demo/any")
    with model.stream("Tell me about the tide in Brest.", reasoning="low") as stream:
        for item in stream:
            match item:
                case ThinkingDelta():
                    print(f"({item.text})", end="", flush=True)
                case TextDelta():
                    print(item.text, end="", flush=True)
                case _:
                    continue
    print()

    with model.stream("A long story, please.") as stream:
        for item in stream:
            print(f"first: {item}")
            break  # leaving the with block closes the connection

    print(asyncio.run(count_deltas(model)), "text deltas, async")


async def count_deltas(model: dragoman.Model) -> int:
    async with model.astream("Tell me about the tide in Brest.") as stream:
        return len([item async for item in stream if isinstance(item, TextDelta)])


if __name__ == "__main__":
    main()
