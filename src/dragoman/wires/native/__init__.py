"""Dragoman's own protocol, as a client of another gateway and as a server.

It resembles chat completions, but arguments are objects, tool calls arrive whole, and no field of a part is lost.
"""

from dragoman.wires.base import Wire
from dragoman.wires.common.client_half import WireClient
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.native.decoder import NativeDecoder, decode_error
from dragoman.wires.native.encoder import encode_request, encode_tools
from dragoman.wires.native.parts import encode_hosted_tool, encode_result
from dragoman.wires.native.schema import NAME
from dragoman.wires.native.server import NativeServer
from dragoman.wires.native.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=encode_tools,
        encode_result=encode_result,
        hosted_tool=encode_hosted_tool,
        decoder=NativeDecoder,
        decode_error=decode_error,
        caching="verbatim",
    ),
    server=NativeServer(),
    gateway_call_ids=True,
    lists_notices=True,
    endpoints=Endpoints("/models"),
    server_endpoints=SERVER_ENDPOINTS,
)
