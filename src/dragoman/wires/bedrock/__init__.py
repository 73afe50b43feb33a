"""Amazon Bedrock's Converse API, as a client and as a server."""

from dragoman.wires.base import Wire
from dragoman.wires.bedrock.decoder import ConverseDecoder
from dragoman.wires.bedrock.encoder import encode_request, encode_tool_result
from dragoman.wires.bedrock.endpoints import ENDPOINTS
from dragoman.wires.bedrock.hosted_tools import encode_hosted_tool
from dragoman.wires.bedrock.nova import NovaServer
from dragoman.wires.bedrock.parts import encode_tool
from dragoman.wires.bedrock.schema import NAME
from dragoman.wires.bedrock.server import ConverseServer
from dragoman.wires.bedrock.server_endpoints import SERVER_ENDPOINTS
from dragoman.wires.bedrock.text import TextServer, encode_text
from dragoman.wires.common.aws_errors import decode_error
from dragoman.wires.common.client_half import WireClient, tool_by_tool
from dragoman.wires.common.invoke import ChunkDecoder, InvokeServer, count_endpoint
from dragoman.wires.common.s3_batches import S3Batches

NOVA = InvokeServer(NovaServer(), "converse")
WIRE = Wire(
    name=NAME,
    client=WireClient(
        NAME,
        encode_request=encode_request,
        encode_tools=tool_by_tool(encode_tool),
        encode_result=encode_tool_result,
        hosted_tool=encode_hosted_tool,
        decoder=ConverseDecoder,
        framing=ChunkDecoder,
        decode_error=decode_error,
        caching="points",
        encode_completion=encode_text,
    ),
    server=ConverseServer(),
    other_servers=(NOVA, InvokeServer(TextServer(), "text")),
    endpoints=ENDPOINTS,
    batches={"s3": S3Batches("Converse")},
    server_endpoints=(*SERVER_ENDPOINTS, count_endpoint(NOVA, "converse")),
)
