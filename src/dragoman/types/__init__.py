"""The vocabulary: messages, parts, requests and responses. Every wire translates to and from these values.

The values are frozen and checked when they are made: a wrong value raises InvalidRequest, which names the parameter.
`dump` writes values as JSON and `load` reads them.
"""

from dragoman.types.base import Extra, JsonObject, is_list, is_object
from dragoman.types.messages import SYSTEM_ROLES, Message, Role, Tool, ToolChoice, assistant, system, tool_results, user
from dragoman.types.parts import (
    Audio,
    Document,
    Image,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    ToolResult,
)
from dragoman.types.requests import Effort, Request, Verbosity
from dragoman.types.responses import (
    UNKNOWN_USAGE,
    Attempt,
    Choice,
    Cost,
    Embeddings,
    Finish,
    FinishReason,
    ModelInfo,
    Notice,
    NoticeKind,
    Response,
    TokenCount,
    Usage,
    UsageSource,
    add_costs,
    add_usage,
)
from dragoman.types.storage import dump, load

__all__ = [
    "SYSTEM_ROLES",
    "UNKNOWN_USAGE",
    "Attempt",
    "Audio",
    "Cost",
    "Choice",
    "Document",
    "Effort",
    "Embeddings",
    "Extra",
    "Finish",
    "FinishReason",
    "Image",
    "JsonObject",
    "Message",
    "ModelInfo",
    "Notice",
    "NoticeKind",
    "Opaque",
    "Part",
    "Request",
    "Response",
    "ResultPart",
    "Role",
    "Text",
    "Thinking",
    "TokenCount",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "Usage",
    "UsageSource",
    "add_costs",
    "Verbosity",
    "add_usage",
    "assistant",
    "dump",
    "is_list",
    "is_object",
    "load",
    "system",
    "tool_results",
    "user",
]
