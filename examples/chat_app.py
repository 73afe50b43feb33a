"""A chat with a streaming page, in one file and without a framework: `python examples/chat_app.py [SPEC]`.

Open http://127.0.0.1:8000. Without a spec the demo answers. With `--try` it asks itself one question and ends.
"""

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dragoman

PAGE = """<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body{font:16px system-ui;max-width:40em;margin:2em auto}p{white-space:pre-wrap}b{display:block}</style>
<div id="log"></div><form><input size="50" autofocus required> <button>Send</button></form>
<script>
const messages = [], log = document.querySelector("#log"), field = document.querySelector("input");
const add = (name, text) => { const p = document.createElement("p"), b = document.createElement("b");
  b.textContent = name; p.append(b, text); log.append(p); return p; };
document.querySelector("form").onsubmit = async event => {
  event.preventDefault();
  messages.push({role: "user", content: field.value}); add("you", field.value); field.value = "";
  const answer = await fetch("/chat", {method: "POST", body: JSON.stringify(messages)});
  const p = add("model", ""), reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let piece; !(piece = await reader.read()).done;) { text += piece.value; p.append(piece.value); }
  messages.push({role: "assistant", content: text});
};
</script>"""


class Handler(BaseHTTPRequestHandler):
    """The page, and the stream of an answer."""

    model: dragoman.Model

    def do_GET(self) -> None:
        """Send the page."""
        self._start("text/html; charset=utf-8")
        self.wfile.write(PAGE.encode())

    def do_POST(self) -> None:
        """Stream the answer to a conversation. If the browser leaves, the write fails, and the stream closes."""
        body = self.rfile.read(int(self.headers["content-length"]))
        messages = dragoman.messages_from(json.loads(body))
        self._start("text/plain; charset=utf-8")
        try:
            with self.model.stream(messages) as stream:
                for text in stream.text_deltas():
                    self.wfile.write(text.encode())
                    self.wfile.flush()
        except dragoman.DragomanError as error:
            self.wfile.write(f"\n[{type(error).__name__}]".encode())

    def _start(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing for each request."""


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--try"]
    Handler.model = dragoman.model(words[0] if words else "demo/any")
    if "--try" in sys.argv:
        try_it()
        return
    with ThreadingHTTPServer(("127.0.0.1", 8000), Handler) as server:
        print("http://127.0.0.1:8000")
        server.serve_forever()


def try_it() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.request("POST", "/chat", json.dumps([{"role": "user", "content": "Is it so?"}]))
        print(connection.getresponse().read().decode())
        connection.close()
        server.shutdown()


if __name__ == "__main__":
    main()
