"""Answers from your own texts, with citations: `python examples/rag.py [SPEC [EMBEDDING_SPEC]]`.

Each paragraph becomes a vector. The nearest paragraphs to a question go into the prompt with numbers, and the answer
must name the numbers that it used. A number that was not in the prompt is an error. Without a spec, a scripted provider
answers, and the demo makes the vectors.
"""

import json
import sys
from dataclasses import dataclass

import dragoman
from dragoman.testing import Scripted

PARAGRAPHS = (
    "The harbour of Brest has a tidal range of up to seven metres at spring tides.",
    "Diesel is sold at the north pier from eight in the morning until noon.",
    "Visitors moor at pontoon C. The first night is free for boats under eight metres.",
    "The harbour master listens on channel 9 and closes the lock in storms.",
)
ANSWER = {"text": "Visitors moor at pontoon C, and the first night is free under eight metres.", "sources": [3]}


@dataclass
class Answer:
    """An answer, and the numbers of the paragraphs that it is taken from."""

    text: str
    sources: list[int]


def nearest(question: str, spec: str, count: int) -> list[int]:
    """The numbers of the nearest paragraphs, from 1."""
    first, *others = dragoman.embed(spec, [question, *PARAGRAPHS]).vectors
    scores = [sum(a * b for a, b in zip(first, other, strict=True)) for other in others]
    return sorted(range(1, len(others) + 1), key=lambda number: -scores[number - 1])[:count]


def ask(model: dragoman.Model, spec: str, question: str) -> Answer:
    numbers = nearest(question, spec, 3)
    sources = "\n".join(f"[{number}] {PARAGRAPHS[number - 1]}" for number in numbers)
    prompt = f"Answer only from these paragraphs, and name those that you use.\n\n{sources}\n\n{question}"
    answer = model.extract(Answer, prompt)
    if invented := set(answer.sources) - set(numbers):
        raise SystemExit(f"the model cites paragraphs that it did not get: {invented}")
    return answer


def main() -> None:
    model = dragoman.model(sys.argv[1]) if len(sys.argv) > 1 else Scripted(json.dumps(ANSWER)).model()
    spec = sys.argv[2] if len(sys.argv) > 2 else "demo/any"
    answer = ask(model, spec, "Where do visitors moor, and what does the first night cost?")
    print(answer.text)
    for number in answer.sources:
        print(f"  [{number}] {PARAGRAPHS[number - 1]}")


if __name__ == "__main__":
    main()
