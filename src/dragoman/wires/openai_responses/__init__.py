"""OpenAI Responses, and the servers that speak it."""

from dragoman.wire import Wire
from dragoman.wires.openai_responses.client import CLIENT
from dragoman.wires.openai_responses.server import Server
from dragoman.wires.openai_responses.shapes import NAME

WIRE = Wire(name=NAME, client=CLIENT, server=Server())
