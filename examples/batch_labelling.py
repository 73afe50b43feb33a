"""Label many texts with a type, eight at a time, and add up tokens and cost.

`python examples/batch_labelling.py [SPEC]`. Without a spec, a scripted provider answers.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import dragoman
from dragoman.testing import ClaudeSimulator

REVIEWS = (
    "The berth was clean, and the harbour master spoke three languages.",
    "Two hours in the queue for diesel. Never again.",
    "The showers are closed in winter, the view is not.",
    "They moved our boat without asking, and broke a fender.",
    "Best fish soup of the whole coast!",
)


@dataclass
class Label:
    """The opinion in a review, and its subject."""

    opinion: Literal["good", "bad", "mixed"]
    subject: str


SCRIPT = {
    "berth": Label("good", "staff"),
    "diesel": Label("bad", "fuel"),
    "showers": Label("mixed", "showers"),
    "fender": Label("bad", "damage"),
    "soup": Label("good", "food"),
}


def scripted(request: dragoman.Request) -> str:
    text = request.messages[-1].text
    return json.dumps(vars(next(label for word, label in SCRIPT.items() if word in text)))


async def label(model: dragoman.Model, review: str, limit: asyncio.Semaphore) -> dragoman.Parsed[Label]:
    async with limit:
        return await model.agenerate(f"Label this review:\n{review}", output=Label)


async def label_all(model: dragoman.Model) -> None:
    limit = asyncio.Semaphore(8)
    responses = await asyncio.gather(*(label(model, review, limit) for review in REVIEWS))
    for review, response in zip(REVIEWS, responses, strict=True):
        assert response.parsed is not None
        print(f"{response.parsed.opinion:<6} {response.parsed.subject:<8} {review}")
    counts = Counter(response.parsed.opinion for response in responses if response.parsed is not None)
    tokens = sum(response.usage.total or 0 for response in responses)
    costs = [response.cost.usd for response in responses if response.cost is not None]
    cost = f"${sum(costs):.6f}" if len(costs) == len(responses) else "unknown: the model has no list price"
    print(f"{dict(counts)}, {tokens} tokens, cost {cost}")


def main() -> None:
    model = dragoman.model(sys.argv[1]) if len(sys.argv) > 1 else ClaudeSimulator(reply=scripted).model()
    asyncio.run(label_all(model))


if __name__ == "__main__":
    main()
