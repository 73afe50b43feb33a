"""OpenAI Chat Completions, and the many servers that speak it."""

from dragoman.wire import Wire
from dragoman.wires.openai_chat.client import CLIENT
from dragoman.wires.openai_chat.server import Server
from dragoman.wires.openai_chat.shapes import NAME

WIRE = Wire(name=NAME, client=CLIENT, server=Server())
