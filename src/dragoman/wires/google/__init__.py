"""Google's generateContent, as the Gemini API and Vertex AI offer it, as a client and as a server."""

from functools import partial

from dragoman.wires.base import Wire
from dragoman.wires.common.client_half import WireClient
from dragoman.wires.common.framing import DetectedFraming, JsonArrayDecoder
from dragoman.wires.google.batches import InlineBatches
from dragoman.wires.google.decoder import GeminiDecoder
from dragoman.wires.google.encoder import encode_request, encode_tool_result, encode_tools
from dragoman.wires.google.endpoints import ENDPOINTS
from dragoman.wires.google.files import GeminiFiles
from dragoman.wires.google.hosted_tools import encode_hosted_tool
from dragoman.wires.google.prompt_caches import GeminiCaches
from dragoman.wires.google.schema import NAME
from dragoman.wires.google.server import GeminiServer
from dragoman.wires.google.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=encode_tools,
        encode_result=encode_tool_result,
        hosted_tool=encode_hosted_tool,
        decoder=GeminiDecoder,
        framing=partial(DetectedFraming, dict.fromkeys((b"[", b"{"), JsonArrayDecoder)),
    ),
    server=GeminiServer(),
    endpoints=ENDPOINTS,
    batches={"inline": InlineBatches()},
    files=GeminiFiles(),
    prompt_caches=GeminiCaches(),
    server_endpoints=SERVER_ENDPOINTS,
)
