"""A Request becomes the JSON of the Messages API."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.errors import (
    InvalidRequest,
    Unsupported,
)
from dragoman.http import HttpRequest
from dragoman.targets.providers import target
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import (
    Audio,
    Document,
    Image,
    Message,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from dragoman.wires.anthropic import WIRE
from tests.support.wires import laws

TARGET = target("anthropic/claude-x", api_key="k")
HELLO = (user("hello"),)
TIDE = Tool(name="tide", description="Tide height", parameters=laws.SCHEMA)
CALL = ToolCall(id="toolu_1", name="tide", arguments={"port": "Brest"})
RESULT = ToolResult(id="toolu_1", name="tide", content="4.2 m")
SIGNED = Thinking(text="Hm.", extra={"anthropic": {"signature": "EqQB"}})
USED: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"port": "Brest"}}
ANSWERED: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4.2 m"}
SCHEMA_SENT = {"format": {"type": "json_schema", "schema": laws.SCHEMA}}


def at(*, capabilities: Capabilities | None = None, **quirks: Any) -> Target:
    """A target with these facts."""
    return replace(TARGET, capabilities=capabilities or TARGET.capabilities, quirks=Quirks(**quirks))


def http(where: Target = TARGET, **fields: Any) -> HttpRequest:
    options: dict[str, Any] = {"messages": HELLO, **fields}
    return WIRE.client.encode_request(Request(**options), where)


def body(where: Target = TARGET, **fields: Any) -> Any:
    return json.loads(http(where, **fields).body)


def option(field: str, where: Target = TARGET, **fields: Any) -> Any:
    return body(where, **fields).get(field)


def messages(*given: Message, **fields: Any) -> Any:
    return body(messages=given, **fields)["messages"]


def notices(where: Target = TARGET, **fields: Any) -> list[tuple[str, str]]:
    return [(notice.kind, notice.what) for notice in http(where, **fields).notices]


class TestRequest:
    def test_the_plainest_request(self) -> None:
        assert body() == {
            "model": "claude-x",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": "hello"}],
        }

    def test_it_goes_to_messages_with_key_and_version(self) -> None:
        sent = http()
        assert sent.url == "https://api.anthropic.com/v1/messages"
        assert dict(sent.headers) == {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "x-api-key": "k",
        }

    def test_the_target_names_the_version(self) -> None:
        assert http(at(api_version="2026-10-21")).headers["anthropic-version"] == "2026-10-21"

    @pytest.mark.parametrize("betas", [["a-1", "b-2"], "a-1,b-2"])
    def test_betas_are_a_header(self, betas: object) -> None:
        sent = http(extra={"anthropic": {"betas": betas}})
        assert sent.headers["anthropic-beta"] == "a-1,b-2"
        assert "betas" not in json.loads(sent.body)

    @pytest.mark.parametrize("betas", [["a b"], [{}], "a\r\nx-evil: 1"])
    def test_betas_that_are_no_words_are_dropped(self, betas: object) -> None:
        sent = http(extra={"anthropic": {"betas": betas}})
        assert sent.headers.get("anthropic-beta") is None
        assert [notice.what for notice in sent.notices] == ["betas"]

    def test_every_plain_option(self) -> None:
        sent = body(
            temperature=0.5, top_p=0.9, top_k=5, max_tokens=99, stop=("END",), user="u1", stream=True, cache=True
        )
        assert sent == {
            "model": "claude-x",
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "hello"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 5,
            "stop_sequences": ["END"],
            "metadata": {"user_id": "u1"},
            "stream": True,
            "cache_control": {"type": "ephemeral"},
        }

    def test_unset_differs_from_zero(self) -> None:
        sent = body(temperature=0.0, top_k=0, max_tokens=0)
        assert (sent["temperature"], sent["top_k"], sent["max_tokens"]) == (0.0, 0, 0)

    def test_what_it_has_no_word_for_is_dropped_with_a_notice(self) -> None:
        fields: dict[str, Any] = {"seed": 1, "metadata": {"team": "x"}, "stop": (" ", "END")}
        assert notices(**fields) == [("dropped", "stop"), ("dropped", "seed"), ("dropped", "metadata: team")]
        assert body(**fields)["stop_sequences"] == ["END"]

    def test_strict_refuses_a_loss(self) -> None:
        with pytest.raises(Unsupported, match="seed"):
            http(seed=1, strict=True)

    def test_extra_is_merged_verbatim(self) -> None:
        extra = {"anthropic": {"service_tier": "auto", "metadata": {"trace": "t"}, "thinking": "odd"}}
        sent = body(user="u1", extra=extra)
        assert sent["service_tier"] == "auto"
        assert sent["metadata"] == {"user_id": "u1", "trace": "t"}
        assert sent["thinking"] == "odd"

    def test_extra_of_another_wire_is_dropped_with_a_notice(self) -> None:
        assert notices(extra={"google": {"safety": 1}}) == [("dropped", "google: safety")]

    def test_temperature_is_at_most_one(self) -> None:
        assert option("temperature", temperature=1.7) == 1.0
        assert notices(temperature=1.7) == [("changed", "temperature")]

    @pytest.mark.parametrize("where", [at(sampling=False), at(api_version="2026-10-21")])
    def test_sampling_is_dropped_where_it_is_refused(self, where: Target) -> None:
        assert body(where, temperature=0.5, top_p=0.9, top_k=5) == body(where)
        assert notices(where, temperature=0.5, top_p=0.9) == [("dropped", "temperature"), ("dropped", "top_p")]

    def test_a_temperature_excludes_top_p_where_both_are_refused(self) -> None:
        where = at(temperature_excludes_top_p=True)
        assert option("top_p", where, temperature=0.5, top_p=0.9) is None
        assert notices(where, temperature=0.5, top_p=0.9) == [("dropped", "top_p")]
        assert option("top_p", where, top_p=0.9) == 0.9

    def test_what_extra_says_of_sampling_wins(self) -> None:
        assert option("temperature", at(sampling=False), temperature=0.5, extra={"anthropic": {"temperature": 1}}) == 1


class TestMaxTokens:
    def test_the_targets_limit_is_the_default(self) -> None:
        assert option("max_tokens", at(capabilities=Capabilities(max_output=8192))) == 8192

    def test_more_than_the_limit_is_lowered(self) -> None:
        where = at(capabilities=Capabilities(max_output=8192))
        assert option("max_tokens", where, max_tokens=9000) == 8192
        assert notices(where, max_tokens=9000) == [("changed", "max_tokens")]


class TestSystem:
    def test_one_text_is_a_string(self) -> None:
        assert option("system", system="Be brief.") == "Be brief."

    def test_several_texts_are_blocks_in_order(self) -> None:
        given = (system("Be brief."), user("hello"), system("Be kind."))
        assert option("system", system="You are a pilot.", messages=given) == [
            {"type": "text", "text": "You are a pilot."},
            {"type": "text", "text": "Be brief."},
        ]
        assert messages(*given) == [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": "<system>\nBe kind.\n</system>"},
        ]

    def test_a_cache_mark_survives(self) -> None:
        marked = Text(text="Long.", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}})
        assert option("system", system=(marked,)) == [
            {"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}}
        ]

    def test_an_empty_prompt_is_not_sent(self) -> None:
        assert "system" not in body(system="")

    def test_it_stays_in_the_history_where_the_target_takes_it_there(self) -> None:
        given = (system("First."), user("a"), system("Be kind."), assistant("b"), user("c"))
        sent = body(at(system_turns=True), messages=given)
        assert sent["system"] == "First."
        assert sent["messages"] == [
            {"role": "user", "content": "a"},
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]

    @pytest.mark.parametrize(
        ("part", "what"),
        [
            (Opaque(wire="google", data={"x": {}}, is_optional=True), "google block (x)"),
            (Thinking(text="Hm.", extra={"anthropic": {}}), "part of a system message"),
        ],
        ids=["block", "thinking"],
    )
    def test_inside_the_history_it_holds_nothing_of_another_wire(self, part: Any, what: str) -> None:
        where = at(system_turns=True)
        given = (user("a"), Message(role="system", parts=(part, Text(text="Be kind."))), assistant("c"))
        assert body(where, messages=given)["messages"][1] == {
            "role": "system",
            "content": [{"type": "text", "text": "Be kind."}],
        }
        assert notices(where, messages=given) == [("dropped", what)]

    def test_inside_the_history_a_loss_is_refused_under_strict(self) -> None:
        foreign = Message(role="system", parts=(Opaque(wire="google", data={"x": {}}, is_optional=True),))
        with pytest.raises(Unsupported, match="google block"):
            http(at(system_turns=True), messages=(user("a"), foreign), strict=True)

    def test_inside_the_history_a_block_of_another_wire_is_refused(self) -> None:
        foreign = Message(role="system", parts=(Opaque(wire="google", data={"x": {}}),))
        with pytest.raises(Unsupported, match="cannot send a block of type 'x': only targets of the wire google"):
            http(at(system_turns=True), messages=(user("a"), foreign))

    def test_inside_the_history_it_is_left_out_where_nothing_of_it_is_left(self) -> None:
        foreign = Message(role="system", parts=(Opaque(wire="google", data={"x": {}}, is_optional=True),))
        assert body(at(system_turns=True), messages=(user("a"), foreign))["messages"] == [
            {"role": "user", "content": "a"}
        ]

    @pytest.mark.parametrize(
        ("given", "roles"),
        [
            ((user("a"), system("s")), ["user", "system"]),
            ((user("a"), system(" "), system("s")), ["user", "system"]),
            ((user("a"), system("s"), system("t"), assistant("b")), ["user", "system", "assistant"]),
            ((user("a"), assistant("b"), system("s"), user("c")), ["user", "assistant", "user", "user"]),
            ((user("a"), system("s"), user("c")), ["user", "system", "assistant", "user"]),
            ((user("a"), assistant("b"), system("s")), ["user", "assistant", "user"]),
            ((user("a"), assistant(CALL), tool_results(RESULT), system("s")), ["user", "assistant", "user", "system"]),
        ],
        ids=["last", "blank", "two", "after an answer", "before a user", "last after an answer", "after a result"],
    )
    def test_inside_the_history_it_stands_only_where_the_api_takes_it(
        self, given: tuple[Message, ...], roles: list[str]
    ) -> None:
        sent = body(at(system_turns=True), messages=given)["messages"]
        assert [message["role"] for message in sent] == roles
        marked = "<system>" in str(sent)
        assert marked == ("system" not in roles)


class TestMessages:
    def test_a_call_and_its_result(self) -> None:
        assert messages(user("tide?"), assistant(CALL), tool_results(RESULT)) == [
            {"role": "user", "content": "tide?"},
            {"role": "assistant", "content": [USED]},
            {"role": "user", "content": [ANSWERED]},
        ]

    def test_results_of_parallel_calls_are_first_in_one_user_message(self) -> None:
        second = ToolCall(id="toolu_2", name="tide")
        sent = messages(
            user("tide?"),
            assistant("Let me see.", CALL, second),
            tool_results(RESULT),
            tool_results(ToolResult(id="toolu_2", content="low")),
            user("And?"),
        )
        assert sent[2:] == [
            {
                "role": "user",
                "content": [ANSWERED, {"type": "tool_result", "tool_use_id": "toolu_2", "content": "low"}],
            },
            {"role": "user", "content": "And?"},
        ]

    def test_an_unanswered_call_gets_an_error(self) -> None:
        sent = messages(user("tide?"), assistant(CALL), user("And?"))
        assert sent[2]["content"][0] == {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": "result unavailable; do not assume that it ran",
            "is_error": True,
        }

    def test_an_error_is_marked(self) -> None:
        sent = messages(user("?"), assistant(CALL), tool_results(replace(RESULT, content="no", is_error=True)))
        assert sent[2]["content"] == [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True}
        ]

    def test_pictures_and_documents_stand_inside_a_result(self) -> None:
        content = (
            Text(text="chart"),
            Text(text=""),
            Image(data=b"png", mime="image/png"),
            Document(data=b"%PDF", mime="application/pdf"),
            Opaque(wire="anthropic", data={"type": "tool_reference", "tool_name": "x"}),
            Opaque(wire="google", data={"x": 1}, is_optional=True),
        )
        result = replace(RESULT, content=content, extra={"anthropic": {"cache_control": {"type": "ephemeral"}}})
        given = (user("?"), assistant(CALL), tool_results(result))
        assert messages(*given)[2]["content"] == [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [
                    {"type": "text", "text": "chart"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                    },
                    {"type": "tool_reference", "tool_name": "x"},
                ],
                "cache_control": {"type": "ephemeral"},
            }
        ]
        assert notices(messages=given) == [("dropped", "google block (x)")]

    @pytest.mark.parametrize("content", ["", "\n"])
    def test_a_result_that_says_nothing_has_no_content(self, content: str) -> None:
        sent = messages(user("?"), assistant(CALL), tool_results(replace(RESULT, content=content)))
        assert sent[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1"}]

    def test_ids_are_made_to_fit_and_stay_together(self) -> None:
        call, result = replace(CALL, id="call:1/ü"), replace(RESULT, id="call:1/ü")
        sent = messages(user("?"), assistant(call), tool_results(result))
        fitted = sent[1]["content"][0]["id"]
        assert fitted.isalnum()
        assert len(fitted) == 24
        assert sent[2]["content"][0]["tool_use_id"] == fitted
        assert notices(messages=(user("?"), assistant(call), tool_results(result))) == [("renamed", "call id call:1/ü")]

    def test_answers_are_joined_and_messages_of_the_user_stay_apart(self) -> None:
        assert messages(user("a"), user("b"), assistant("c"), assistant("d"), user("e")) == [
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
            {"role": "user", "content": "e"},
        ]

    def test_the_first_message_is_from_the_user(self) -> None:
        sent = messages(assistant("Ahoy."), user("hello"))
        assert sent[0] == {"role": "user", "content": "(The conversation begins.)"}

    def test_blank_texts_are_left_out(self) -> None:
        given = (user("", "a"), assistant("\n\n"), user("b"))
        assert [message["content"] for message in messages(*given)] == ["a", "(no text)", "b"]
        assert notices(messages=given) == [
            ("repaired", "a text of white space"),
            ("repaired", "an empty message of the assistant"),
        ]

    def test_the_last_text_of_a_prefill_is_trimmed(self) -> None:
        given = (user("a"), assistant("The answer is \n"))
        assert messages(*given)[1] == {"role": "assistant", "content": "The answer is"}
        assert notices(messages=given) == [("repaired", "the last message")]

    @pytest.mark.parametrize("last", [assistant("{"), assistant(Opaque(wire="anthropic", data={"type": "x"}))])
    def test_a_prefill_without_white_space_stays(self, last: Message) -> None:
        assert notices(messages=(user("a"), last)) == []

    def test_no_messages_are_no_messages(self) -> None:
        assert messages() == []

    def test_what_a_message_carries_beside_its_parts_is_given_back(self) -> None:
        sent = messages(replace(HELLO[0], extra={"anthropic": {"id": "m1"}}))
        assert sent == [{"role": "user", "content": "hello", "id": "m1"}]

    def test_blocks_of_its_own_are_given_back_in_their_place(self) -> None:
        block: dict[str, Any] = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        sent = messages(user("?"), assistant("a", Opaque(wire="anthropic", data=block), "b"), user("c"))
        assert [piece["type"] for piece in sent[1]["content"]] == ["text", "server_tool_use", "text"]

    def test_a_block_of_its_own_is_never_taken_for_a_text(self) -> None:
        block = {"type": "note", "text": "a"}
        assert messages(user(Opaque(wire="anthropic", data=block))) == [{"role": "user", "content": [block]}]

    def test_messages_that_came_as_they_are_stay_whole(self) -> None:
        whole = {"role": "system", "content": [{"type": "tool_addition"}]}
        inner_system = Message(role="user", parts=(Opaque(wire="anthropic", data=whole),))
        assert messages(user("a"), inner_system) == [{"role": "user", "content": "a"}, whole]

    def test_extra_of_text_and_call_is_given_back(self) -> None:
        text = Text(text="a", extra={"anthropic": {"citations": [{"type": "page_location"}]}})
        call = replace(CALL, extra={"anthropic": {"caller": {"type": "direct"}}})
        sent = messages(user("?"), assistant(text, call), tool_results(RESULT))
        assert sent[1]["content"] == [
            {"type": "text", "text": "a", "citations": [{"type": "page_location"}]},
            {**USED, "caller": {"type": "direct"}},
        ]


class TestMedia:
    def content(self, part: Any) -> Any:
        return messages(user("?", part))[0]["content"][1]

    def test_an_image_by_its_bytes(self) -> None:
        assert self.content(Image(data=b"png", mime="image/png")) == {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"},
        }

    def test_an_image_by_its_url(self) -> None:
        assert self.content(Image(url="https://example.org/a.png")) == {
            "type": "image",
            "source": {"type": "url", "url": "https://example.org/a.png"},
        }

    def test_a_data_url_is_split(self) -> None:
        assert self.content(Image(url="data:image/gif;base64,R0lG")) == {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"},
        }

    def test_a_broken_data_url_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="the URL of an image is not valid"):
            self.content(Image(url="data:image/gif,R0lG"))

    def test_a_url_is_refused_where_the_target_fetches_none(self) -> None:
        with pytest.raises(Unsupported, match="cannot fetch"):
            body(
                at(capabilities=Capabilities(image_urls=False)),
                messages=(user(Image(url="https://example.org/a.png")),),
            )

    def test_a_plain_http_url_is_refused(self) -> None:
        with pytest.raises(Unsupported, match="must use https"):
            self.content(Image(url="http://example.org/a.png"))

    def test_detail_is_dropped_with_a_notice(self) -> None:
        image = Image(data=b"png", mime="image/png", detail="low")
        assert notices(messages=(user(image),)) == [("dropped", "image detail")]

    def test_a_pdf(self) -> None:
        document = Document(
            data=b"%PDF", mime="application/pdf", name="bill", extra={"anthropic": {"citations": {"enabled": True}}}
        )
        assert self.content(document) == {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "bill",
            "citations": {"enabled": True},
        }

    def test_a_text_document(self) -> None:
        assert self.content(Document(data=b"Ebbe & Flut", mime="text/plain")) == {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Ebbe & Flut"},
        }

    def test_other_text_is_sent_as_plain_text(self) -> None:
        document = Document(data=b"# Tides", mime="text/markdown")
        assert self.content(document)["source"]["media_type"] == "text/plain"
        assert notices(messages=(user(document),)) == [("changed", "type of a document")]

    @pytest.mark.parametrize(
        "part",
        [
            Document(data=b"\xff", mime="text/plain"),
            Document(data=b"PK", mime="application/zip"),
            Audio(data=b"RIFF", mime="audio/wav"),
        ],
        ids=["not UTF-8", "not a document", "audio"],
    )
    def test_what_it_cannot_carry_is_refused(self, part: Any) -> None:
        with pytest.raises(Unsupported):
            self.content(part)


class TestThinkingInTheHistory:
    def test_it_is_replayed_with_its_signature(self) -> None:
        empty = Thinking(text="", extra={"anthropic": {"signature": "EuYB"}})
        hidden = Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}})
        sent = messages(user("?"), assistant(SIGNED, empty, hidden, CALL), tool_results(RESULT))
        assert sent[1]["content"] == [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "thinking", "thinking": "", "signature": "EuYB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            USED,
        ]

    def test_that_of_another_wire_is_left_out(self) -> None:
        given = (user("?"), assistant(Thinking(text="Hm."), "a"), user("b"))
        assert messages(*given)[1] == {"role": "assistant", "content": "a"}
        assert notices(messages=given) == [("dropped", "thinking")]

    def test_at_the_end_of_a_message_it_is_left_out(self) -> None:
        given = (user("?"), assistant("a", SIGNED), user("b"), assistant(SIGNED), user("c"))
        assert [message["content"] for message in messages(*given)] == [
            "?",
            "a",
            "b",
            "(no text)",
            "c",
        ]
        assert notices(messages=given) == [
            ("repaired", "thinking at the end of a message"),
            ("repaired", "an empty message of the assistant"),
        ]

    def test_without_a_signature_it_is_left_out_where_that_is_refused(self) -> None:
        unsigned = Thinking(text="Hm.", extra={"anthropic": {}})
        hidden = Thinking(text="", redacted=True, extra={"anthropic": {"data": "EmwK"}})
        given = (user("?"), assistant(unsigned, hidden, SIGNED, "a"), user("b"))
        assert [block["type"] for block in messages(*given)[1]["content"]] == [
            "thinking",
            "redacted_thinking",
            "thinking",
            "text",
        ]
        where = at(signed_thinking=True)
        sent = body(where, messages=given)["messages"][1]["content"]
        assert [block["type"] for block in sent] == ["redacted_thinking", "thinking", "text"]
        assert notices(where, messages=given) == [("dropped", "thinking")]


class TestReasoning:
    def test_a_word_is_a_budget(self) -> None:
        sent = body(reasoning="low")
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2048}
        assert sent["max_tokens"] == 4096

    def test_a_number_is_the_budget(self) -> None:
        assert option("thinking", reasoning=3000, max_tokens=4000) == {"type": "enabled", "budget_tokens": 3000}

    @pytest.mark.parametrize("reasoning", ["none", 0])
    @pytest.mark.parametrize("form", [None, "budget", "adaptive"])
    def test_none_is_disabled(self, reasoning: Any, form: Any) -> None:
        where = at(reasoning=form)
        assert option("thinking", where, reasoning=reasoning) == {"type": "disabled"}
        assert notices(where, reasoning=reasoning) == []

    def test_a_small_budget_is_raised(self) -> None:
        assert option("thinking", reasoning=500) == {"type": "enabled", "budget_tokens": 1024}
        assert notices(reasoning=500) == [("changed", "reasoning")]

    def test_max_tokens_is_raised_where_nobody_told_it(self) -> None:
        assert option("max_tokens", reasoning="high") == 16384 + 4096
        assert notices(reasoning="high") == []

    def test_the_budget_is_lowered_below_a_told_limit(self) -> None:
        assert option("thinking", reasoning="high", max_tokens=8000)["budget_tokens"] == 6000
        assert notices(reasoning="high", max_tokens=8000) == [("changed", "reasoning")]
        assert option("thinking", reasoning="high", max_tokens=1025)["budget_tokens"] == 1024

    def test_the_budget_is_lowered_below_the_targets_limit(self) -> None:
        where = at(capabilities=Capabilities(max_output=8000))
        assert option("thinking", where, reasoning="high")["budget_tokens"] == 6000

    def test_a_limit_without_room_for_thinking_is_raised(self) -> None:
        sent = body(reasoning="low", max_tokens=500)
        assert (sent["thinking"]["budget_tokens"], sent["max_tokens"]) == (1024, 1524)
        assert notices(reasoning="low", max_tokens=500) == [("changed", "max_tokens")]

    def test_a_budget_is_below_the_raised_limit(self) -> None:
        assert option("max_tokens", reasoning="low", max_tokens=0) == 1025

    def test_an_adaptive_model_takes_an_effort(self) -> None:
        sent = body(at(reasoning="adaptive"), reasoning="max")
        assert sent["thinking"] == {"type": "adaptive"}
        assert sent["output_config"] == {"effort": "max"}

    def test_thinking_that_is_bound_to_the_conversation_may_be_left_out(self) -> None:
        where = at(reasoning="adaptive", bound_thinking=True)
        binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        sent = http(where, reasoning="max", extra={"anthropic": {"betas": ["context-1m-2025-08-07"]}})
        assert json.loads(sent.body)["thinking"] == {"type": "adaptive", **binding}
        beta = "thinking-binding-controls-2026-08-01"
        assert sent.headers["anthropic-beta"] == f"context-1m-2025-08-07,{beta}"
        assert option("thinking", where, tools=(TIDE,)) == {"type": "adaptive", **binding}
        assert http(where, tools=(TIDE,)).headers["anthropic-beta"] == beta

    def test_a_single_question_and_own_fields_get_no_beta_feature(self) -> None:
        where = at(reasoning="adaptive", bound_thinking=True)
        own = {"anthropic": {"thinking": {"type": "adaptive"}}}
        for sent in (http(where), http(where, extra=own, tools=(TIDE,))):
            assert "anthropic-beta" not in sent.headers
            assert b"block_binding" not in sent.body

    def test_minimal_effort_is_low(self) -> None:
        where = at(reasoning="adaptive")
        assert option("output_config", where, reasoning="minimal") == {"effort": "low"}
        assert notices(where, reasoning="minimal") == [("changed", "reasoning")]

    def test_a_model_that_always_thinks_thinks_little(self) -> None:
        where = at(reasoning="adaptive", efforts=("low", "medium", "high"))
        assert option("output_config", where, reasoning="none") == {"effort": "low"}

    def test_a_model_that_does_not_think_is_not_asked_to(self) -> None:
        where = at(capabilities=Capabilities(thinking=False))
        assert option("thinking", where, reasoning="high") is None
        assert notices(where, reasoning="high") == [("dropped", "reasoning")]
        assert notices(where, reasoning="none") == []

    def test_a_model_that_may_not_think_beside_tools_does_not(self) -> None:
        where = at(reasoning_with_tools=False)
        assert option("thinking", where, reasoning="low", tools=(TIDE,)) == {"type": "disabled"}
        assert notices(where, reasoning="low", tools=(TIDE,)) == [("changed", "reasoning")]

    def test_sampling_does_not_go_with_a_budget(self) -> None:
        sent = body(reasoning="low", temperature=0.5, top_p=0.5, top_k=5)
        assert {"temperature", "top_p", "top_k"} & sent.keys() == set()
        kinds = notices(reasoning="low", temperature=0.5, top_p=0.5, top_k=5)
        assert kinds == [("dropped", "temperature"), ("dropped", "top_p"), ("dropped", "top_k")]

    def test_what_the_api_takes_with_a_budget_stays(self) -> None:
        sent = body(reasoning="low", temperature=1.0, top_p=0.95)
        assert (sent["temperature"], sent["top_p"]) == (1.0, 0.95)

    @pytest.mark.parametrize("more", [(), (user("And?"),)])
    def test_it_does_not_begin_in_the_middle_of_a_tool_loop(self, more: tuple[Message, ...]) -> None:
        loop = (user("?"), assistant(CALL), tool_results(RESULT), *more)
        assert option("thinking", messages=loop, reasoning="low") is None
        assert notices(messages=loop, reasoning="low") == [("dropped", "reasoning")]

    @pytest.mark.parametrize(
        "history",
        [
            (user("?"), assistant(SIGNED, CALL), tool_results(RESULT)),
            (user("?"), assistant(CALL), tool_results(RESULT), assistant("High."), user("And?")),
            (user("?"), assistant("Well")),
        ],
        ids=["thought before", "loop is over", "prefill"],
    )
    def test_it_begins_elsewhere(self, history: tuple[Message, ...]) -> None:
        assert option("thinking", messages=history, reasoning="low") is not None

    def test_the_apis_own_words_win(self) -> None:
        own = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}
        sent = body(reasoning="max", extra={"anthropic": own})
        assert (sent["thinking"], sent["output_config"]) == (own["thinking"], own["output_config"])

    def test_the_apis_own_words_give_way_where_the_model_does_not_know_them(self) -> None:
        own = {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}
        sent = body(at(reasoning="budget"), reasoning="low", extra={"anthropic": own})
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2048, "display": "summarized"}
        assert "output_config" not in sent

    def test_a_model_with_efforts_gets_its_effort_besides_a_budget(self) -> None:
        own = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
        where = at(reasoning="budget", efforts=("low", "medium", "high"))
        sent = body(where, reasoning="low", extra={"anthropic": own})
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2048}
        assert sent["output_config"] == {"effort": "low"}

    def test_display_alone_asks_for_nothing(self) -> None:
        assert option("thinking", extra={"anthropic": {"thinking": {"display": "omitted"}}}) is None


class TestTools:
    def test_a_definition(self) -> None:
        assert option("tools", tools=(TIDE,)) == [
            {"name": "tide", "description": "Tide height", "input_schema": laws.SCHEMA}
        ]

    def test_no_arguments(self) -> None:
        assert option("tools", tools=(Tool(name="now"),)) == [
            {"name": "now", "input_schema": {"type": "object", "properties": {}}}
        ]

    def test_a_plain_tools_schema_is_sent_as_it_is(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
        tool = Tool(name="n", parameters=schema, strict=False)
        assert option("tools", tools=(tool,)) == [{"name": "n", "input_schema": schema, "strict": False}]

    def test_a_strict_tools_schema_is_fitted(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
        tool = Tool(name="n", parameters=schema, strict=True)
        assert option("tools", tools=(tool,)) == [
            {
                "name": "n",
                "input_schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer", "description": "minimum: 1"}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ]
        assert ("dropped", "tool n.properties.n: minimum") in notices(tools=(tool,))

    @pytest.mark.parametrize(("root", "kind"), [({}, "repaired"), ({"type": ["object", "null"]}, "changed")])
    def test_the_root_is_an_object(self, root: Any, kind: str) -> None:
        tool = Tool(name="n", parameters={**root, "properties": {}})
        assert option("tools", tools=(tool,))[0]["input_schema"] == {"type": "object", "properties": {}}
        assert notices(tools=(tool,)) == [(kind, "tool n: type")]

    def test_a_flag_that_the_target_lacks_is_dropped(self) -> None:
        where, search = at(strict=False), Opaque(wire="anthropic", data={"type": "web_search_20260318"})
        tools = (replace(TIDE, strict=True), search)
        assert option("tools", where, tools=tools) == option("tools", tools=(TIDE, search))
        assert notices(where, tools=tools) == [("dropped", "strict")]

    def test_tools_of_its_own_are_given_back(self) -> None:
        search = {"type": "web_search_20260318", "name": "web_search"}
        assert option("tools", tools=(Opaque(wire="anthropic", data=search),)) == [search]

    def test_tools_of_others_are_left_out(self) -> None:
        tools = (Opaque(wire="google", data={"googleSearch": {}}),)
        assert "tools" not in body(tools=tools)
        assert notices(tools=tools) == [("dropped", "tool googleSearch")]

    def test_a_tools_extra_is_given_back(self) -> None:
        tool = replace(TIDE, extra={"anthropic": {"cache_control": {"type": "ephemeral"}}})
        assert option("tools", tools=(tool,))[0]["cache_control"] == {"type": "ephemeral"}

    @pytest.mark.parametrize(
        ("choice", "parallel", "sent"),
        [
            (None, None, None),
            ("auto", None, {"type": "auto"}),
            ("none", None, {"type": "none"}),
            ("required", None, {"type": "any"}),
            ("tide", None, {"type": "tool", "name": "tide"}),
            (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
            ("required", True, {"type": "any", "disable_parallel_tool_use": False}),
            ("none", False, {"type": "none"}),
        ],
    )
    def test_the_choice(self, choice: Any, parallel: Any, sent: Any) -> None:
        assert option("tool_choice", tools=(TIDE,), tool_choice=choice, parallel_tool_calls=parallel) == sent

    def test_a_choice_without_tools_is_dropped(self) -> None:
        assert "tool_choice" not in body(tool_choice="required")
        assert notices(tool_choice="required") == [("dropped", "tool_choice")]
        assert notices(tool_choice="none") == []

    def test_a_switch_that_the_target_lacks_is_dropped(self) -> None:
        where = at(parallel_tool_calls=False)
        assert option("tool_choice", where, tools=(TIDE,), parallel_tool_calls=False) is None
        assert notices(where, tools=(TIDE,), parallel_tool_calls=False) == [("dropped", "parallel_tool_calls")]

    @pytest.mark.parametrize("choice", ["required", "tide"])
    def test_a_forced_call_is_left_to_a_model_that_always_thinks(self, choice: str) -> None:
        where = at(capabilities=Capabilities(forced_choice=False))
        assert option("tool_choice", where, tools=(TIDE,), tool_choice=choice) == {"type": "auto"}
        (notice,) = http(where, tools=(TIDE,), tool_choice=choice).notices
        assert notice.what == "tool_choice"
        assert "thinks" not in notice.why

    def test_a_forced_call_does_not_go_with_a_budget(self) -> None:
        assert option("tool_choice", tools=(TIDE,), tool_choice="required", reasoning="low") == {"type": "auto"}
        assert notices(tools=(TIDE,), tool_choice="required", reasoning="low") == [("changed", "tool_choice")]

    def test_a_forced_call_does_not_go_with_adaptive_thinking(self) -> None:
        where = at(reasoning="adaptive")
        assert option("tool_choice", where, tools=(TIDE,), tool_choice="required", reasoning="low") == {"type": "auto"}


class TestCodec:
    def test_definitions_alone(self) -> None:
        assert WIRE.client.encode_tools((Tool(name="now"),)) == [
            {"name": "now", "input_schema": {"type": "object", "properties": {}}}
        ]

    def test_definitions_alone_are_without_those_of_another_wire(self) -> None:
        search = {"type": "web_search_20260318", "name": "web_search"}
        tools = (Opaque(wire="google", data={"googleSearch": {}}), Opaque(wire="anthropic", data=search))
        assert WIRE.client.encode_tools(tools) == [search]

    def test_a_result_alone(self) -> None:
        content = (Text(text="4.2 m"), Opaque(wire="google", data={}))
        block = {**ANSWERED, "content": [{"type": "text", "text": "4.2 m"}]}
        message = {"role": "user", "content": [block]}
        assert WIRE.client.encode_result(replace(RESULT, content=content)) == message


class TestSchema:
    def test_it_is_the_format(self) -> None:
        sent = body(schema=laws.SCHEMA, schema_name="port")
        assert sent["output_config"] == SCHEMA_SENT
        assert "port" not in sent

    def test_it_stands_beside_the_effort(self) -> None:
        sent = body(at(reasoning="adaptive"), schema=laws.SCHEMA, reasoning="low")
        assert sent["output_config"] == {"effort": "low", **SCHEMA_SENT}

    def test_it_is_fitted(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0, "description": "Years"},
                "mail": {"type": "string", "format": "email", "maxLength": 9},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
                "kind": {"oneOf": [{"const": 1}, {"type": "null"}]},
            },
            "$defs": {"tag": {"type": "string", "pattern": "^a(?=b)"}},
        }
        fitted = option("output_config", schema=schema)["format"]["schema"]
        assert fitted == {
            "type": "object",
            "properties": {
                "age": {"type": "integer", "description": "Years\nminimum: 0"},
                "mail": {"type": "string", "format": "email", "description": "maxLength: 9"},
                "tags": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/tag"},
                    "minItems": 1,
                    "description": "minItems: 2",
                },
                "kind": {"anyOf": [{"const": 1}, {"type": "null"}]},
            },
            "$defs": {"tag": {"type": "string", "description": 'pattern: "^a(?=b)"'}},
            "additionalProperties": False,
        }
        assert ("dropped", "schema.properties.age: minimum") in notices(schema=schema)

    def test_recursion_is_cut(self) -> None:
        schema = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
        fitted = option("output_config", schema=schema)["format"]["schema"]
        assert "$ref" not in json.dumps(fitted)

    def test_any_json_is_asked_for_in_words(self) -> None:
        sent = body(schema={}, system="Be brief.")
        assert "output_config" not in sent
        assert sent["system"] == [
            {"type": "text", "text": "Be brief."},
            {
                "type": "text",
                "text": "Answer with one JSON value and nothing else: no prose, no code fence.",
            },
        ]
        assert notices(schema={}) == [("changed", "schema")]

    @pytest.mark.parametrize("where", [at(capabilities=Capabilities(structured=False)), at(json_schema=False)])
    def test_where_it_cannot_be_enforced_it_is_asked_for_in_words(self, where: Target) -> None:
        sent = body(where, schema={"type": "object"}, schema_mode="auto")
        assert "output_config" not in sent
        assert sent["system"].endswith('It must satisfy this JSON Schema: {"type":"object"}')
