"""Our own protocol: chat completions with whole calls, objects for arguments, and nothing left out."""

from dragoman.wires.base import Wire
from dragoman.wires.native.client import CLIENT
from dragoman.wires.native.endpoints import ENDPOINTS
from dragoman.wires.native.schema import NAME
from dragoman.wires.native.server import Server
from dragoman.wires.native.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(
    name=NAME,
    client=CLIENT,
    server=Server(),
    gateway_call_ids=True,
    endpoints=ENDPOINTS,
    server_endpoints=SERVER_ENDPOINTS,
)
