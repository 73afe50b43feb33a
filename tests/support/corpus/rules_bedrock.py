"""How a Converse request may differ in form after it was decoded and encoded again."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.types import is_object
from tests.support.corpus.rules import Rule, without_nulls

Json = dict[str, Any]


def _blocks(body: Json, change: Callable[[Json], Json]) -> Json:
    messages = [
        {**message, "content": [change(block) for block in message["content"]]} for message in body.get("messages", [])
    ]
    return {**body, "messages": messages}


def _results(block: Json) -> Json:
    result = block.get("toolResult")
    if not is_object(result):
        return block
    return {"toolResult": {key: value for key, value in result.items() if (key, value) != ("status", "success")}}


def _citations(block: Json) -> Json:
    content = block.get("citationsContent")
    if not is_object(content):
        return block
    text = "".join(item["text"] for item in content.get("content", []))
    return {"citationsContent": {**content, "content": [{"text": text}]}}


def _empty_members(body: Json) -> Json:
    names = (
        "system",
        "inferenceConfig",
        "toolConfig",
        "additionalModelRequestFields",
        "requestMetadata",
        "outputConfig",
    )
    body = {key: value for key, value in body.items() if value or key not in names}
    config = body.get("inferenceConfig")
    if is_object(config):
        body["inferenceConfig"] = {key: value for key, value in config.items() if value != []}
    return body


def _merged_turns(body: Json) -> Json:
    messages: list[Json] = []
    for message in body.get("messages", []):
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], *message["content"]]}
        else:
            messages.append(message)
    return {**body, "messages": messages}


def _schemas(body: Json) -> Json:
    config = body.get("outputConfig")
    if not is_object(config) or not is_object(config.get("textFormat")):
        return body
    inner = config["textFormat"]["structure"]["jsonSchema"]
    inner = {"name": "response", **inner, "schema": json.loads(inner["schema"])}
    return {
        **body,
        "outputConfig": {**config, "textFormat": {"type": "json_schema", "structure": {"jsonSchema": inner}}},
    }


def _old_names(body: Json) -> Json:
    names = {"max_new_tokens": "maxTokens", "top_p": "topP", "top_k": "topK"}
    config = body.get("inferenceConfig")
    if not is_object(config):
        return body
    return {**body, "inferenceConfig": {names.get(name, name): value for name, value in config.items()}}


RULES = [
    Rule("old-names", "Nova takes older names of options, too", _old_names),
    Rule("null-is-absent", "null and a missing member mean the same to the API", without_nulls),
    Rule("empty-members", "an empty object or list means the same as none", _empty_members),
    Rule("merged-turns", "consecutive messages of one role mean the same as one", _merged_turns),
    Rule("results-without-error", "status: success is the default", partial(_blocks, change=_results)),
    Rule("citations", "the texts of a block with citations are joined", partial(_blocks, change=_citations)),
    Rule("schemas", "a schema is the text of JSON, whose blanks have no meaning; it needs a name", _schemas),
]
