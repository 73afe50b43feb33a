"""Google generateContent, as the Gemini API and Vertex speak it."""

from dragoman.wire import Wire
from dragoman.wires.google.client import CLIENT
from dragoman.wires.google.server import Server
from dragoman.wires.google.shapes import NAME

WIRE = Wire(name=NAME, client=CLIENT, server=Server())
