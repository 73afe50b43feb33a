"""Ollama's own chat API, as a client and as a server."""

from dragoman.wires.base import Wire
from dragoman.wires.common.client_half import WireClient, tool_by_tool
from dragoman.wires.common.framing import NdjsonDecoder
from dragoman.wires.ollama.decoder import OllamaDecoder, decode_error
from dragoman.wires.ollama.endpoints import ENDPOINTS
from dragoman.wires.ollama.generate import OllamaGenerateServer, encode_completion, encode_request
from dragoman.wires.ollama.parts import encode_result, encode_tool
from dragoman.wires.ollama.schema import NAME, add_durations
from dragoman.wires.ollama.server import OllamaServer
from dragoman.wires.ollama.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=tool_by_tool(encode_tool),
        encode_result=encode_result,
        decoder=OllamaDecoder,
        encode_completion=encode_completion,
        thinking_extra={NAME: {}},
        framing=NdjsonDecoder,
        decode_error=decode_error,
    ),
    server=OllamaServer(),
    other_servers=(OllamaGenerateServer(),),
    empty_request_loads_model=True,
    add_durations=add_durations,
    endpoints=ENDPOINTS,
    server_endpoints=SERVER_ENDPOINTS,
)
