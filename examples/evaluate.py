"""Compare two models on the same questions, with a third as judge: `python examples/evaluate.py A B JUDGE`.

The judge sees the answers as 1 and 2, and each question twice with the order changed, because judges prefer the first.
Without specs, scripted providers answer.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal

import dragoman
from dragoman.testing import ClaudeSimulator, GptSimulator

QUESTIONS = ("Why is the sea salty?", "When is the tide highest?", "What is a pontoon?")
ANSWERS = {
    "salty": ("Rivers carry salts into it, and water evaporates while salt stays.", "It just is."),
    "tide": ("At noon.", "Around new and full moon, when sun and moon pull in one line."),
    "pontoon": ("A floating platform where boats moor.", "A floating platform where boats moor."),
}


@dataclass
class Verdict:
    """Which answer is better, and why."""

    better: Literal["1", "2", "equal"]
    why: str


def scripted(number: int) -> dragoman.Model:
    def reply(request: dragoman.Request) -> str:
        return next(texts[number] for word, texts in ANSWERS.items() if word in request.messages[-1].text)

    return ClaudeSimulator(reply=reply).model()


def scripted_judge() -> dragoman.Model:
    def reply(request: dragoman.Request) -> str:
        first, second = (line[3:] for line in request.messages[-1].text.splitlines() if line[:3] in ("1: ", "2: "))
        better = "equal" if first == second else "1" if len(first) > len(second) else "2"
        return f'{{"better": "{better}", "why": "It explains more."}}'

    return GptSimulator(reply=reply).model()


def judge(model: dragoman.Model, question: str, first: str, second: str) -> Verdict:
    return model.extract(Verdict, f"Which answer is better?\n{question}\n1: {first}\n2: {second}")


def main() -> None:
    specs = sys.argv[1:]
    a, b, referee = map(dragoman.model, specs) if specs else (scripted(0), scripted(1), scripted_judge())
    wins: Counter[str] = Counter()
    for question in QUESTIONS:
        answers = {"a": a.generate(question).text, "b": b.generate(question).text}
        for first, second in (("a", "b"), ("b", "a")):
            verdict = judge(referee, question, answers[first], answers[second])
            wins[{"1": first, "2": second, "equal": "equal"}[verdict.better]] += 1
        print(question)
        for name, text in answers.items():
            print(f"  {name}: {shorten(text, 72, placeholder=' …')}")
    print(f"a wins {wins['a']}, b wins {wins['b']}, equal {wins['equal']}")


if __name__ == "__main__":
    main()
