"""Ollama's own chat API, local and in the cloud, and the servers that speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.ollama.client import Client
from dragoman.wires.ollama.endpoints import ENDPOINTS
from dragoman.wires.ollama.generate import Generate
from dragoman.wires.ollama.schema import NAME
from dragoman.wires.ollama.server import Server
from dragoman.wires.ollama.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=Client(),
    server=Server(),
    other_servers=(Generate(),),
    empty_request_loads_model=True,
    endpoints=ENDPOINTS,
    server_endpoints=SERVER_ENDPOINTS,
)
