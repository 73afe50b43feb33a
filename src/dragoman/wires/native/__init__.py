"""Our own protocol: chat completions with whole calls, objects for arguments, and nothing left out."""

from dragoman.wire import Wire
from dragoman.wires.native.client import CLIENT
from dragoman.wires.native.server import Server
from dragoman.wires.native.shapes import NAME

WIRE = Wire(name=NAME, client=CLIENT, server=Server(), own_ids=True)
