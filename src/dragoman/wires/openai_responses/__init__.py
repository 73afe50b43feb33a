"""OpenAI Responses, and the servers that speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.openai_responses.client import CLIENT
from dragoman.wires.openai_responses.endpoints import ENDPOINTS
from dragoman.wires.openai_responses.previous_response import PreviousResponse
from dragoman.wires.openai_responses.schema import NAME
from dragoman.wires.openai_responses.server import Server
from dragoman.wires.openai_responses.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=CLIENT,
    server=Server(),
    endpoints=ENDPOINTS,
    server_endpoints=SERVER_ENDPOINTS,
    stored_conversations=PreviousResponse(),
)
