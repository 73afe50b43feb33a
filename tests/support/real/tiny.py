"""Writes a language model of 250 kB: it produces random letters, and behaves well enough for a protocol test.

It speaks in a random chain of letters and stops by itself. A few weights are set by hand, so that it behaves:

- tools in the prompt: it opens a tool call, and the server's own grammar makes the arguments fit;
- a tool's result in the prompt: it answers with text;
- an opened thought: it neither ends nor calls until it has closed the thought;
- after a call it ends, or makes another one, as the seed will have it.

Each token is a vector whose square is its width, so that the norms in the network leave it as it is. Most of it is a
random pattern of signs; the rest are slots: one is always on, the others say what a token is. For each thing to
remember, one head of attention looks for the token that told it, anywhere before, and notes it in a slot.
"""

from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

WIDTH: Final = 64
HEADS: Final = 4
HEAD: Final = WIDTH // HEADS
HIDDEN: Final = 32
CONTEXT: Final = 4096

# What a token is: slots of its vector.
ALWAYS, TELLS_TOOLS, TELLS_CALL, TELLS_THOUGHT, OPENS, IS_NEWLINE, IS_CALL, IS_CALL_END = range(8)
# What was seen so far: slots that the heads write, in their order.
HAS_TOOLS, HAS_CALL, IS_THINKING = range(8, 11)
SLOTS: Final = 11
ON: Final = 3.3

NEWLINE: Final = "<0x0A>"
END: Final = "<|im_end|>"
CONTROLS: Final = ("<|im_start|>", END)
MARKS: Final = ("<tools>", "<tool_call>", "</tool_call>", "<tool_response>", "<think>", "</think>")
BLANK: Final = "\N{LOWER ONE EIGHTH BLOCK}"
"""How the tokenizer writes a space."""

TEMPLATE: Final = r"""
{%- set first = messages[0] %}
{%- if tools or first.role == 'system' %}
{{- '<|im_start|>system\n' }}
{%- if first.role == 'system' %}{{ first.content + '\n' }}{% endif %}
{%- if tools %}{{ '<tools>\n' }}{% for tool in tools %}{{ tool | tojson + '\n' }}{% endfor %}{% endif %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{{- '<think>\n' if enable_thinking is defined and enable_thinking else '<think>\n\n</think>\n\n' }}
{%- endif %}
""".strip()
"""As Qwen's: the server finds out by itself from this how calls and thoughts are written."""


def write_model(path: Path, /, *, seed: int = 2026) -> None:
    """Make the model; the same seed makes the same file."""
    tokens = _tokens()
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(1e9)  # so slow at the end of a head that its last numbers do not know where they are
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(tokens))
    writer.add_token_types([int(kind) for kind in tokens.values()])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_bos_token_id(_place(tokens, "<s>"))
    writer.add_eos_token_id(_place(tokens, END))
    writer.add_unk_token_id(_place(tokens, "<unk>"))
    writer.add_add_bos_token(value=False)
    writer.add_add_space_prefix(value=False)
    writer.add_chat_template(TEMPLATE)
    for name, weights in _weights(tokens, np.random.default_rng(seed)).items():
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tokens() -> dict[str, gguf.TokenType]:
    """Every byte, every printable character, and the marks: so any text can be written, if slowly."""
    kind = gguf.TokenType
    return {
        "<unk>": kind.UNKNOWN,
        "<s>": kind.CONTROL,
        **{f"<0x{byte:02X}>": kind.BYTE for byte in range(256)},
        **dict.fromkeys(CONTROLS, kind.CONTROL),
        **dict.fromkeys(MARKS, kind.USER_DEFINED),
        BLANK: kind.NORMAL,
        **{chr(code): kind.NORMAL for code in range(33, 127)},
    }


def _place(tokens: dict[str, gguf.TokenType], token: str) -> int:
    return list(tokens).index(token)


def _weights(tokens: dict[str, gguf.TokenType], rng: np.random.Generator) -> dict[str, Any]:
    vectors = rng.integers(0, 2, (len(tokens), WIDTH)) * 2.0 - 1.0
    vectors[:, :SLOTS] = 0.0
    vectors[:, ALWAYS] = ON
    for token, slot, value in (
        ("<tools>", TELLS_TOOLS, ON),
        ("<tool_call>", TELLS_CALL, ON),
        ("<tool_response>", TELLS_CALL, ON),
        ("<think>", TELLS_THOUGHT, ON),
        ("<think>", OPENS, ON),
        ("</think>", TELLS_THOUGHT, 2 * ON),  # the louder one: what it closed stays closed
        (NEWLINE, IS_NEWLINE, ON),
        ("<tool_call>", IS_CALL, ON),
        ("</tool_call>", IS_CALL_END, ON),
    ):
        vectors[_place(tokens, token), slot] = value
    room = WIDTH - np.square(vectors[:, :SLOTS]).sum(axis=1, keepdims=True)
    vectors[:, SLOTS:] *= np.sqrt(room / (WIDTH - SLOTS))
    return {
        "token_embd": vectors,
        "output_norm": np.ones(WIDTH),
        "output": _strengths(tokens, rng),
        **{f"blk.0.{name}": weights for name, weights in _block(rng).items()},
    }


def _strengths(tokens: dict[str, gguf.TokenType], rng: np.random.Generator) -> Any:
    """How much each token is wanted next: by chance, and by the slots."""
    strengths = rng.normal(0.0, 0.12, (len(tokens), WIDTH))
    strengths[:, :SLOTS] = 0.0
    for place, (token, kind) in enumerate(tokens.items()):
        if kind is not gguf.TokenType.NORMAL:
            strengths[place] = 0.0
            strengths[place, ALWAYS] = -12.0 / ON
        elif not token.islower() and token != BLANK:
            strengths[place, ALWAYS] = -5.0 / ON
    for token, slot, setting in (
        ('"', ALWAYS, 0.5),  # strings end soon
        ("<", ALWAYS, -15.0),  # a mark is one token, not its letters
        (",", ALWAYS, -15.0),  # after a call: seldom another one
        ("}", ALWAYS, -3.0),
        ("]", ALWAYS, -3.0),
        (END, ALWAYS, 0.2),
        (END, IS_NEWLINE, -12.0),  # no empty answers, and none of white space only
        (END, TELLS_THOUGHT, -12.0),
        (BLANK, IS_NEWLINE, -12.0),
        (BLANK, TELLS_THOUGHT, -12.0),
        (END, IS_CALL_END, 12.0),
        (END, IS_THINKING, -12.0),
        ("<tool_call>", HAS_TOOLS, 24.0),
        ("<tool_call>", HAS_CALL, -24.0),
        ("<tool_call>", IS_THINKING, -36.0),
        (NEWLINE, IS_CALL, 30.0),
        ("</think>", IS_THINKING, 12.4),
        ("</think>", IS_NEWLINE, -12.0),
    ):
        strengths[_place(tokens, token), slot] = setting / ON
    return strengths


def _block(rng: np.random.Generator) -> dict[str, Any]:
    """Three heads that remember, one that mixes at random what was said, and a small random network behind them."""
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    block = {name: rng.normal(0.0, 0.1, shape) for name, shape in shapes.items()}
    for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
        block[name][:, :SLOTS] = 0.0
    for name in ("attn_output", "ffn_down"):
        block[name][:SLOTS] = 0.0
    memories = (
        (TELLS_TOOLS, TELLS_TOOLS, HAS_TOOLS),
        (TELLS_CALL, TELLS_CALL, HAS_CALL),
        (TELLS_THOUGHT, OPENS, IS_THINKING),
    )
    for head, (sought, read, written) in enumerate(memories):
        start, still = head * HEAD, (head + 1) * HEAD - 2
        for name in ("attn_q", "attn_k", "attn_v"):
            block[name][start : start + HEAD] = 0.0
        block["attn_output"][:, start : start + HEAD] = 0.0
        block["attn_q"][still, ALWAYS] = 3.0
        block["attn_k"][still, sought] = 3.0
        block["attn_v"][start, read] = 1.0
        block["attn_output"][written, start] = 1.0
    return {**block, "attn_norm": np.ones(WIDTH), "ffn_norm": np.ones(WIDTH)}
