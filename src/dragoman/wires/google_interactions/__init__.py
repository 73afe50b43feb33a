"""Google's Interactions API, as the Gemini API offers it, as a client and as a server."""

from dragoman.wires.base import Wire
from dragoman.wires.common.client_half import WireClient, tool_by_tool
from dragoman.wires.google_interactions.decoder import InteractionsDecoder
from dragoman.wires.google_interactions.encoder import encode_request
from dragoman.wires.google_interactions.endpoints import ENDPOINTS
from dragoman.wires.google_interactions.hosted_tools import encode_hosted_tool
from dragoman.wires.google_interactions.parts import encode_result, encode_tool
from dragoman.wires.google_interactions.previous_interaction import PreviousInteraction
from dragoman.wires.google_interactions.schema import NAME
from dragoman.wires.google_interactions.server import InteractionsServer
from dragoman.wires.google_interactions.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=tool_by_tool(encode_tool),
        encode_result=encode_result,
        hosted_tool=encode_hosted_tool,
        decoder=InteractionsDecoder,
    ),
    server=InteractionsServer(),
    endpoints=ENDPOINTS,
    server_endpoints=SERVER_ENDPOINTS,
    continuation=PreviousInteraction(),
)
