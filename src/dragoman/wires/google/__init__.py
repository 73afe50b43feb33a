"""Google generateContent, as the Gemini API and Vertex speak it."""

from dragoman.wires.base import Wire
from dragoman.wires.google.client import CLIENT
from dragoman.wires.google.endpoints import ENDPOINTS
from dragoman.wires.google.schema import NAME
from dragoman.wires.google.server import Server
from dragoman.wires.google.server_endpoints import SERVER_ENDPOINTS

WIRE = Wire(name=NAME, client=CLIENT, server=Server(), endpoints=ENDPOINTS, server_endpoints=SERVER_ENDPOINTS)
