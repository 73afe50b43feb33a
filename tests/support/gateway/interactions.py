"""The steps of an interaction that google-genai streams, put together as its documents say."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.types import JsonObject


def interaction_steps(events: Iterable[Any]) -> list[JsonObject]:
    """The steps of a stream."""
    steps: dict[int, JsonObject] = {}
    for event in events:
        if event.event_type == "step.start":
            steps[event.index] = event.step.model_dump(mode="json", exclude_none=True)
        elif event.event_type == "step.delta":
            _add_delta(steps[event.index], event.delta.model_dump(mode="json", exclude_none=True))
    for step in steps.values():
        if "text" in step:
            step["arguments"] = msgspec.json.decode(step.pop("text"))
    return [steps[index] for index in sorted(steps)]


def _add_delta(step: JsonObject, delta: JsonObject) -> None:
    match delta["type"]:
        case "text":
            step.setdefault("content", []).append(delta)
        case "arguments_delta":
            step["text"] = step.get("text", "") + delta["arguments"]
        case "thought_summary":
            step.setdefault("summary", []).append(delta["content"])
        case _:
            step["signature"] = delta["signature"]
