"""Anthropic Messages, and the servers that speak it."""

from dragoman.wire import Wire
from dragoman.wires.anthropic.client import CLIENT
from dragoman.wires.anthropic.server import Server
from dragoman.wires.anthropic.shapes import NAME

WIRE = Wire(name=NAME, client=CLIENT, server=Server())
