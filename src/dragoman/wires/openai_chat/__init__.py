"""OpenAI Chat Completions, and the many servers that speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.openai_chat.client import CLIENT
from dragoman.wires.openai_chat.endpoints import ENDPOINTS
from dragoman.wires.openai_chat.schema import NAME
from dragoman.wires.openai_chat.server import Server
from dragoman.wires.openai_chat.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(name=NAME, client=CLIENT, server=Server(), endpoints=ENDPOINTS, server_endpoints=SERVER_ENDPOINTS)
