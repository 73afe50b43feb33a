"""OpenAI Responses, and the servers that speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.common.client_half import WireClient
from dragoman.wires.common.openai_batches import FileBatches
from dragoman.wires.openai_responses.background import ResponsesBackground
from dragoman.wires.openai_responses.compaction import CompactServer, ResponsesCompaction
from dragoman.wires.openai_responses.decoder import ResponsesDecoder
from dragoman.wires.openai_responses.encoder import encode_request, encode_tools
from dragoman.wires.openai_responses.endpoints import ENDPOINTS
from dragoman.wires.openai_responses.files import FILES
from dragoman.wires.openai_responses.hosted_tools import encode_hosted_tool
from dragoman.wires.openai_responses.messages import encode_result
from dragoman.wires.openai_responses.parts import returned_call
from dragoman.wires.openai_responses.previous_response import PreviousResponse
from dragoman.wires.openai_responses.schema import NAME
from dragoman.wires.openai_responses.server import OpenAIResponsesServer
from dragoman.wires.openai_responses.server_endpoints import SERVER_ENDPOINTS
from dragoman.wires.openai_responses.websocket import ResponsesSocket

WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=encode_tools,
        encode_result=encode_result,
        hosted_tool=encode_hosted_tool,
        decoder=ResponsesDecoder,
    ),
    server=OpenAIResponsesServer(),
    endpoints=ENDPOINTS,
    batches={"files": FileBatches()},
    files=FILES,
    server_endpoints=SERVER_ENDPOINTS,
    continuation=PreviousResponse(),
    returned_call=returned_call,
    other_servers=(CompactServer(),),
    compaction=ResponsesCompaction(),
    background=ResponsesBackground(),
    socket=ResponsesSocket(),
)
