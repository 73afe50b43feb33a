"""Anthropic's Messages API, as a client and as a server."""

from dragoman.wires.anthropic.batch_endpoints import BATCH_ENDPOINTS
from dragoman.wires.anthropic.batches import MessageBatches
from dragoman.wires.anthropic.decoder import AnthropicDecoder
from dragoman.wires.anthropic.encoder import encode_plain_request, encode_request, encode_tool_result
from dragoman.wires.anthropic.endpoints import ENDPOINTS
from dragoman.wires.anthropic.files import AnthropicFiles
from dragoman.wires.anthropic.hosted_tools import encode_hosted_tool
from dragoman.wires.anthropic.parts import encode_tool
from dragoman.wires.anthropic.plain import decode_plain
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.anthropic.server import AnthropicServer
from dragoman.wires.anthropic.server_endpoints import SERVER_ENDPOINTS
from dragoman.wires.base import Wire
from dragoman.wires.common.aws_errors import decode_hosted_error
from dragoman.wires.common.client_half import WireClient, tool_by_tool
from dragoman.wires.common.invoke import SSE_OR_CHUNKS, InvokeServer, count_endpoint
from dragoman.wires.common.s3_batches import S3Batches

INVOKE = InvokeServer(AnthropicServer(), "messages")
WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=tool_by_tool(encode_tool),
        encode_result=encode_tool_result,
        hosted_tool=encode_hosted_tool,
        decoder=AnthropicDecoder,
        framing=SSE_OR_CHUNKS,
        decode_error=decode_hosted_error,
        caching="blocks",
        encode_plain=encode_plain_request,
        decode_plain=decode_plain,
    ),
    server=AnthropicServer(),
    other_servers=(INVOKE,),
    endpoints=ENDPOINTS,
    batches={"inline": MessageBatches(), "s3": S3Batches("InvokeModel")},
    files=AnthropicFiles(),
    server_endpoints=(*SERVER_ENDPOINTS, *BATCH_ENDPOINTS, count_endpoint(INVOKE, "messages")),
)
