"""Models and embeddings of Chat Completions servers."""

from dragoman.wires.common.endpoints import OpenAIEndpoints

ENDPOINTS = OpenAIEndpoints()
