"""What to write instead of an option that another library has: its name there, and ours."""

from collections.abc import Container

from dragoman.errors import InvalidRequest

OPTION_HINTS = {
    # OpenAI
    "extra_body": "extra={'openai': {…}}, with the name of the provider or the wire",
    "extra_headers": "headers={…}",
    "default_headers": "headers={…}",
    "function_call": "tool_choice='…'",
    "functions": "tools=[…]",
    "input": "the messages in place of the prompt, such as generate(model, messages)",
    "max_completion_tokens": "max_tokens=…",
    "max_output_tokens": "max_tokens=…",
    "max_retries": "retries=…",
    "messages": "the messages in place of the prompt, such as generate(model, messages)",
    "model": "the spec first, such as dragoman.model('openai/gpt-5')",
    "reasoning_effort": "reasoning='…'",
    "response_format": "schema={…}, or output=… with a type",
    "store": "extra={'openai': {'store': True}}",
    "stream_options": "nothing: a stream always ends with its usage",
    "text_format": "output=… with a type",
    # Anthropic and Google
    "candidate_count": "n=…",
    "contents": "the messages in place of the prompt, such as generate(model, messages)",
    "stop_sequences": "stop=[…]",
    "system_instruction": "system='…'",
    "thinking": "reasoning='high', or a number of tokens such as reasoning=4096",
    "thinking_budget": "reasoning=… with a number of tokens",
    "thinking_config": "reasoning='high', or a number of tokens such as reasoning=4096",
    # LiteLLM
    "api_base": "base_url='…'",
    "callbacks": "hooks=Hooks(…) of a model or a Registry",
    "context_window_fallbacks": "fallbacks={'context_too_long': 'google/gemini-2.5-pro'}",
    "custom_llm_provider": "the provider in the spec, such as 'openai/gpt-5'",
    "drop_params": "nothing: what a target lacks is left out with a notice, or refused with strict=True",
    "num_retries": "retries=…",
    "request_timeout": "timeout=…",
    # pydantic-ai, instructor, LangChain
    "deps": "data=… of run(); tools find it in their Context",
    "deps_type": "data=… of run(); tools find it in their Context",
    "instructions": "system='…'",
    "message_history": "the messages in the prompt, such as run([*result.messages, user('…')])",
    "model_settings": "the options by their names, such as temperature=0.2",
    "output_type": "output=… with a type",
    "response_model": "output=… with a type",
    "result_type": "output=… with a type",
    "system_prompt": "system='…'",
    "usage_limits": "budget=Budget(tokens=…)",
}


def option_hint(name: str, /) -> str | None:
    """The error for an option of another library; None if the name is not known.

    >>> option_hint("api_base")
    "unknown option 'api_base'; write base_url='…'"
    """
    if name == "stream":
        return "stream is not an option; call stream() or astream() for a stream, stream_extract() for a typed one"
    return f"unknown option {name!r}; write {OPTION_HINTS[name]}" if name in OPTION_HINTS else None


def refuse_stream(options: Container[str], /) -> None:
    """Raise InvalidRequest for the option `stream` of other SDKs."""
    if "stream" in options:
        raise InvalidRequest(option_hint("stream") or "", param="stream")
