"""Agents as clients of the gateway: they keep a conversation in the JSON of one dialect and send back what they got.

They know nothing of dragoman. Each appends the assistant's message to its history as the agents of that dialect do: the
whole content of a plain answer, or what it assembles from the events of a stream, with all opaque members.
"""

import json
from typing import Any, NamedTuple

from dragoman.http import HttpRequest

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "string"}},
    "required": ["port"],
    "additionalProperties": False,
}
TOOLS = {"tide": "Say how high the tide is.", "chart": "Draw a chart of a port."}


class Call(NamedTuple):
    """A tool call that the client has to run."""

    id: str
    name: str


class AgentClient:
    """The conversation of one agent."""

    DIALECT = ""
    HAS_INNER_SYSTEM = True
    """Whether its protocol has system messages inside the history."""

    def __init__(self, model: str, *, stream: bool) -> None:
        self.model = model
        self.stream = stream
        self.history: list[dict[str, Any]] = []

    def request(self) -> HttpRequest:
        headers = {"content-type": "application/json"}
        return HttpRequest(method="POST", path=self.path(), headers=headers, body=json.dumps(self.body()).encode())

    def path(self) -> str:
        raise NotImplementedError

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def say(self, text: str, *, image: bool = False) -> None:
        raise NotImplementedError

    def say_system(self, text: str) -> None:
        raise NotImplementedError

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        """Add the results of calls: the call, its text, whether it failed."""
        raise NotImplementedError

    def read(self, body: bytes) -> list[Call]:
        """Add the answer to the history, and return its calls."""
        raise NotImplementedError

    def compaction_request(self) -> HttpRequest | None:
        """The request for a compaction; None if the protocol has none."""
        return None

    def compact(self, body: bytes) -> None:
        """Replace the history by a summary; `body` is the answer to the request for it, if there was one."""
        assert not body
        self.history = []
        self.say("Summary of our talk so far: tides at Brest and Cork.")


def events(body: bytes) -> list[Any]:
    """The JSON of a stream of server-sent events."""
    lines = body.decode().replace("\r\n", "\n").split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


class MessagesClient(AgentClient):
    """Claude Code and its like."""

    DIALECT = "anthropic"

    def path(self) -> str:
        return "/v1/messages"

    def body(self) -> dict[str, Any]:
        tools = [{"name": name, "description": text, "input_schema": SCHEMA} for name, text in TOOLS.items()]
        return {
            "model": self.model,
            "max_tokens": 32000,
            "system": [{"type": "text", "text": "You know tides."}],
            "tools": tools,
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
            "stream": self.stream,
            "messages": self.history,
        }

    def say(self, text: str, *, image: bool = False) -> None:
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content.insert(0, {"type": "image", "source": source})
        self.history.append({"role": "user", "content": content})

    def say_system(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text, **({"is_error": True} if failed else {})}
            for call, text, failed in results
        ]
        self.history.append({"role": "user", "content": blocks})

    def read(self, body: bytes) -> list[Call]:
        blocks = self._streamed(events(body)) if self.stream else json.loads(body)["content"]
        self.history.append({"role": "assistant", "content": blocks})
        return [Call(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"]

    def _streamed(self, stream: list[Any]) -> list[dict[str, Any]]:
        blocks: list[Any] = []
        inputs: dict[int, str] = {}
        for event in stream:
            match event:
                case {"type": "content_block_start", "content_block": block}:
                    blocks.append(dict(block))
                case {"type": "content_block_delta", "index": index, "delta": delta}:
                    kind = delta.pop("type")
                    if kind == "input_json_delta":
                        inputs[index] = inputs.get(index, "") + delta["partial_json"]
                    else:
                        for name, piece in delta.items():
                            blocks[index][name] = blocks[index].get(name, "") + piece
                case {"type": "content_block_stop", "index": index} if index in inputs:
                    blocks[index]["input"] = json.loads(inputs[index] or "{}")
                case {"type": "error"}:
                    raise AssertionError(event)
                case _:
                    continue
        return blocks


class ResponsesClient(AgentClient):
    """Codex and its like: nothing is stored at the provider."""

    DIALECT = "openai_responses"

    def path(self) -> str:
        return "/v1/responses"

    def body(self) -> dict[str, Any]:
        tools = [
            {"type": "function", "name": name, "description": text, "parameters": SCHEMA, "strict": True}
            for name, text in TOOLS.items()
        ]
        return {
            "model": self.model,
            "instructions": "You know tides.",
            "tools": tools,
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "stream": self.stream,
            "input": self.history,
        }

    def say(self, text: str, *, image: bool = False) -> None:
        content = [{"type": "input_text", "text": text}]
        if image:
            content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"})
        self.history.append({"type": "message", "role": "user", "content": content})

    def say_system(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "developer", "content": content})

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        for call, text, _ in results:
            self.history.append({"type": "function_call_output", "call_id": call.id, "output": text})

    def read(self, body: bytes) -> list[Call]:
        if self.stream:
            stream = events(body)
            assert stream[-1]["type"] == "response.completed", stream[-1]
            output = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
            assert output == stream[-1]["response"]["output"]
        else:
            output = json.loads(body)["output"]
        self.history += output
        return [Call(item["call_id"], item["name"]) for item in output if item["type"] == "function_call"]

    def compaction_request(self) -> HttpRequest:
        """By the path in plain form, by a trigger in streamed form: Codex does both."""
        body = self.body()
        if self.stream:
            body["input"] = [*self.history, {"type": "compaction_trigger"}]
        else:
            body = {name: body[name] for name in ("model", "instructions", "input")}
        path = self.path() if self.stream else f"{self.path()}/compact"
        return HttpRequest(method="POST", path=path, body=json.dumps(body).encode())

    def compact(self, body: bytes) -> None:
        if self.stream:
            output = events(body)[-1]["response"]["output"]
            assert len(output) == 1
        else:
            output = json.loads(body)["output"]
            assert json.loads(body)["object"] == "response.compaction"
        assert output[-1]["type"] == "compaction"
        self.history = output


class ChatClient(AgentClient):
    """opencode and its like: the message of the assistant goes back with all its members."""

    DIALECT = "openai_chat"

    def path(self) -> str:
        return "/v1/chat/completions"

    def body(self) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": SCHEMA}}
            for name, text in TOOLS.items()
        ]
        system = {"role": "system", "content": "You know tides."}
        return {
            "model": self.model,
            "tools": tools,
            "reasoning_effort": "high",
            "stream": self.stream,
            "messages": [system, *self.history],
        }

    def say(self, text: str, *, image: bool = False) -> None:
        content: Any = text
        if image:
            content = [{"type": "text", "text": text}]
            content.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})
        self.history.append({"role": "user", "content": content})

    def say_system(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        for call, text, _ in results:
            self.history.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def read(self, body: bytes) -> list[Call]:
        message = self._streamed(events(body)) if self.stream else json.loads(body)["choices"][0]["message"]
        self.history.append(message)
        return [Call(call["id"], call["function"]["name"]) for call in message.get("tool_calls") or ()]

    def _streamed(self, stream: list[Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: dict[int, dict[str, Any]] = {}
        for chunk in stream:
            assert "error" not in chunk, chunk
            for choice in chunk["choices"]:
                delta = choice["delta"]
                for name in ("content", "reasoning_content", "reasoning"):
                    if isinstance(delta.get(name), str):
                        message[name] = message.get(name, "") + delta[name]
                for detail in delta.get("reasoning_details") or ():
                    message.setdefault("reasoning_details", []).append(detail)
                for piece in delta.get("tool_calls") or ():
                    call = calls.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
                    function: Any = piece.pop("function", None) or {}
                    call.update({key: value for key, value in piece.items() if value is not None})
                    for key, value in function.items():
                        call["function"][key] += value or ""
        if calls:
            message["tool_calls"] = [
                {key: value for key, value in calls[index].items() if key != "index"} for index in sorted(calls)
            ]
        return message


class GoogleClient(AgentClient):
    """gemini-cli and its like."""

    DIALECT = "google"
    HAS_INNER_SYSTEM = False

    def path(self) -> str:
        verb = "streamGenerateContent?alt=sse" if self.stream else "generateContent"
        return f"/v1beta/models/{self.model}:{verb}"

    def body(self) -> dict[str, Any]:
        functions = [
            {"name": name, "description": text, "parametersJsonSchema": SCHEMA} for name, text in TOOLS.items()
        ]
        return {
            "systemInstruction": {"parts": [{"text": "You know tides."}]},
            "tools": [{"functionDeclarations": functions}],
            "generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}},
            "contents": self.history,
        }

    def say(self, text: str, *, image: bool = False) -> None:
        parts: list[dict[str, Any]] = [{"text": text}]
        if image:
            parts.append({"inlineData": {"mimeType": "image/png", "data": PNG}})
        self.history.append({"role": "user", "parts": parts})

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        parts: list[Any] = []
        for call, text, failed in results:
            response = {"error" if failed else "output": text}
            parts.append({"functionResponse": {"id": call.id, "name": call.name, "response": response}})
        self.history.append({"role": "user", "parts": parts})

    def read(self, body: bytes) -> list[Call]:
        answers = events(body) if self.stream else [json.loads(body)]
        parts: list[dict[str, Any]] = []
        for answer in answers:
            assert "error" not in answer, answer
            for candidate in answer.get("candidates", ()):
                parts += candidate.get("content", {}).get("parts", ())
        parts = _merged(parts)
        self.history.append({"role": "model", "parts": parts})
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        return [Call(call.get("id", ""), call["name"]) for call in calls]


def _merged(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts of a stream; pieces of text without a signature are one part, as gemini-cli does it."""
    merged: list[dict[str, Any]] = []
    for part in parts:
        last = merged[-1] if merged else {}
        if part.keys() <= {"text", "thought"} and last.keys() == part.keys():
            last["text"] += part["text"]
        elif part != {"text": ""}:
            merged.append(dict(part))
    return merged


CLIENTS: dict[str, type[AgentClient]] = {
    "messages": MessagesClient,
    "responses": ResponsesClient,
    "chat": ChatClient,
    "google": GoogleClient,
}


class BareChatClient(ChatClient):
    """A client that keeps what the first Chat Completions had: role, content and tool calls."""

    def read(self, body: bytes) -> list[Call]:
        calls = super().read(body)
        message = self.history.pop()
        kept: dict[str, Any] = {"role": "assistant", "content": message.get("content")}
        if message.get("tool_calls"):
            names = ("id", "type", "function")
            kept["tool_calls"] = [{name: call[name] for name in names} for call in message["tool_calls"]]
        self.history.append(kept)
        return calls


class OllamaClient(AgentClient):
    """A client of Ollama: the message of the assistant goes back as it came. Calls have no ids."""

    DIALECT = "ollama"

    def path(self) -> str:
        return "/api/chat"

    def body(self) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": SCHEMA}}
            for name, text in TOOLS.items()
        ]
        system = {"role": "system", "content": "You know tides."}
        return {
            "model": self.model,
            "tools": tools,
            "think": "high",
            "stream": self.stream,
            "messages": [system, *self.history],
        }

    def say(self, text: str, *, image: bool = False) -> None:
        self.history.append({"role": "user", "content": text, **({"images": [PNG]} if image else {})})

    def say_system(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def give_results(self, results: list[tuple[Call, str, bool]]) -> None:
        for call, text, _ in results:
            self.history.append({"role": "tool", "tool_name": call.name, "content": text})

    def read(self, body: bytes) -> list[Call]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for line in body.splitlines():
            chunk = json.loads(line)
            assert "error" not in chunk, chunk
            for name, value in chunk["message"].items():
                if name in ("content", "thinking"):
                    message[name] = message.get(name, "") + value
                elif name == "tool_calls":
                    message.setdefault(name, []).extend({"function": call["function"]} for call in value)
        self.history.append(message)
        return [Call("", call["function"]["name"]) for call in message.get("tool_calls", ())]


FORGETFUL_CLIENTS: dict[str, type[AgentClient]] = {"bare-chat": BareChatClient, "ollama": OllamaClient}
"""Clients that send back no tag."""
