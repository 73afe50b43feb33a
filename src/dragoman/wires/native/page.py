"""The HTML page that documents the native API; it has no scripts and fetches nothing."""

from collections.abc import Mapping

from dragoman.wires.native.openapi import ERRORS, FIELDS
from dragoman.wires.native.schema import PATH

_CURL = f"""curl -s localhost:8000{PATH}/chat/completions -H 'content-type: application/json' -d '{{
  "model": "demo/any",
  "messages": [{{"role": "user", "content": "What is the tide in Brest?"}}],
  "tools": [{{"type": "function", "function": {{
    "name": "tide", "description": "Tide height",
    "parameters": {{"type": "object", "properties": {{"port": {{"type": "string"}}}}, "required": ["port"]}}}}}}]
}}'"""
_RESULT = """{"role": "assistant", "content": null, "tool_calls": [
  {"id": "call_…", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}]},
{"role": "tool", "tool_call_id": "call_…", "content": {"height": 4.2}}"""
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid #8884; padding: .4rem .6rem .4rem 0; text-align: left; vertical-align: top }
pre { background: #8881; padding: 1rem; overflow-x: auto }
"""


def page() -> str:
    """The whole page as HTML."""
    from html import escape  # it loads a large table that only this page needs

    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dragoman: the native API</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>The native API</h1>
<p>One API for all models. The machine-readable form is <a href="openapi.json">openapi.json</a>.</p>
<h2><code>POST {PATH}/chat/completions</code></h2>
<pre>{escape(_CURL)}</pre>
{_table("Field", FIELDS)}
<h3>Tools</h3>
<p>Arguments are objects; the gateway assigns the ids. Send the assistant's message back unchanged, followed by one
message for each call:</p>
<pre>{escape(_RESULT)}</pre>
<p>A result is a string or any JSON; set <code>is_error</code> if the tool failed.</p>
<h3>Streams</h3>
<p>With <code>stream</code> each event is <code>data: {{chunk}}</code>: <code>delta.content</code> and
<code>delta.thinking</code> continue the part at <code>delta.index</code>, <code>delta.part</code> ends it with the
fields that its deltas did not contain, <code>delta.tool_calls</code> has whole calls, each with its
<code>index</code> among the calls. The stream ends with
<code>data: [DONE]</code>, or with <code>data: {{"error": …}}</code> after a failure.</p>
<h2><code>GET {PATH}/models</code></h2>
<p>The models that you can name in <code>model</code>.</p>
<h2>Errors</h2>
<p><code>{{"error": {{"message", "type", "code", "param", "provider", "request_id", "problems"}}}}</code></p>
{_table("Status", {str(status): why for status, why in ERRORS.items()})}
</body>
</html>
"""


def _table(head: str, rows: Mapping[str, str]) -> str:
    from html import escape

    lines = (f"<tr><td><code>{escape(name)}</code></td><td>{escape(why)}</td></tr>" for name, why in rows.items())
    return f"<table>\n<tr><th>{head}</th><th>Meaning</th></tr>\n" + "\n".join(lines) + "\n</table>"
