"""Anthropic Messages, and the servers that speak it."""

from dragoman.wires.anthropic.client import CLIENT
from dragoman.wires.anthropic.endpoints import ENDPOINTS
from dragoman.wires.anthropic.schema import NAME
from dragoman.wires.anthropic.server import Server
from dragoman.wires.anthropic.server_endpoints import SERVER_ENDPOINTS
from dragoman.wires.base import Wire

WIRE = Wire(name=NAME, client=CLIENT, server=Server(), endpoints=ENDPOINTS, server_endpoints=SERVER_ENDPOINTS)
