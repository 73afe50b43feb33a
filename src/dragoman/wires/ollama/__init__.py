"""Ollama's own chat API, local and in the cloud, and the servers that speak it."""

from dragoman.wire import Wire
from dragoman.wires.ollama.client import Client
from dragoman.wires.ollama.generate import Generate
from dragoman.wires.ollama.server import Server
from dragoman.wires.ollama.shapes import NAME

WIRE = Wire(name=NAME, client=Client(), server=Server(), others=(Generate(),), loads=True)
