"""Models and embeddings of Chat Completions servers."""

from dragoman.extras import OpenAILike

EXTRAS = OpenAILike()
