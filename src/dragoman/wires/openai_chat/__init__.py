"""OpenAI Chat Completions, and the many servers that speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.common.aws_errors import decode_hosted_error
from dragoman.wires.common.client_half import WireClient
from dragoman.wires.common.invoke import SSE_OR_CHUNKS, InvokeServer, count_endpoint
from dragoman.wires.common.openai_batches import FileBatches, JobBatches
from dragoman.wires.openai_chat.batch_endpoints import BATCH_ENDPOINTS, result_files
from dragoman.wires.openai_chat.completions import OpenAICompletionsServer, encode_completion
from dragoman.wires.openai_chat.custom_tools import returned_call
from dragoman.wires.openai_chat.decoder import ChatDecoder
from dragoman.wires.openai_chat.encoder import encode_plain_request, encode_request, encode_tools
from dragoman.wires.openai_chat.endpoints import ENDPOINTS
from dragoman.wires.openai_chat.files import FILES
from dragoman.wires.openai_chat.messages import encode_result
from dragoman.wires.openai_chat.plain import decode_plain
from dragoman.wires.openai_chat.schema import NAME
from dragoman.wires.openai_chat.server import OpenAIChatServer
from dragoman.wires.openai_chat.server_endpoints import SERVER_ENDPOINTS
from dragoman.wires.openai_chat.stored_chats import STORED_CHAT_ENDPOINTS, StoredChatCompletions

INVOKE = InvokeServer(OpenAIChatServer(), "chat")
WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=encode_tools,
        encode_result=encode_result,
        decoder=ChatDecoder,
        framing=SSE_OR_CHUNKS,
        decode_error=decode_hosted_error,
        encode_plain=encode_plain_request,
        decode_plain=decode_plain,
        encode_completion=encode_completion,
        thinking_extra={NAME: {"fields": ["reasoning_content"]}},
    ),
    server=OpenAIChatServer(),
    returned_call=returned_call,
    other_servers=(OpenAICompletionsServer(), INVOKE),
    endpoints=ENDPOINTS,
    batches={"files": FileBatches(), "jobs": JobBatches()},
    files=FILES,
    server_endpoints=(*SERVER_ENDPOINTS, *STORED_CHAT_ENDPOINTS, *BATCH_ENDPOINTS, count_endpoint(INVOKE, "chat")),
    batch_files=result_files,
    stored_chats=StoredChatCompletions(),
)
