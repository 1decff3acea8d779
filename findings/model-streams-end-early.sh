#!/usr/bin/env bash
# Guess:    a streamed answer of a model has an end of its own ([DONE], message_stop, "done": true), so an SDK that reads it fails
#           when the connection ends before, as it does for a body that is cut.
# Version:  openai 3.57.0, anthropic 2.14.0, mistralai 3.7.0, cohere 7.3.1, ollama 0.6.3, litellm 1.110.2, from PyPI.
# Found:    where the transfer itself is complete (a proxy ends the chunks of a server that died), all but litellm end as after a
#           whole answer. The helpers that collect it return the part as the final text. litellm fails with "Stream ended before
#           a finish_reason was received".
# Seen:     a stream of one piece, "Do not ", and no end
#           openai, mistralai, ollama ['Do not ']   cohere, anthropic: the events so far   openai and anthropic, collected 'Do not '
#           litellm  error
# Matters:  "Do not delete it" becomes "Do not ", or the arguments of a tool call are cut, and the program acts on that.
# So here:  `endsAt` of an event stream names the last event by its data or its type. A connection that ends before it is lost.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 \
    anthropic==2.14.0 mistralai==3.7.0 cohere==7.3.1 ollama==0.6.3 litellm==1.110.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

# litellm reads a table of prices from its own package instead of the network.
LITELLM_LOCAL_MODEL_COST_MAP=True "$work/venv/bin/python" - <<'PYTHON'
import http.server, json, logging, sys, threading

import anthropic, cohere, litellm, mistralai.client, ollama, openai

logging.disable()
litellm.suppress_debug_info = True
completion = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [
    {"index": 0, "delta": {"role": "assistant", "content": "Do not "}, "finish_reason": None}]}
message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
streams = {
    "/v1/messages": [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Do not "}},
    ],
    "/v2/chat": [
        {"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Do not "}}}},
    ],
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/chat":
            kind = "application/x-ndjson"
            data = json.dumps({"model": "m", "message": {"role": "assistant", "content": "Do not "}, "done": False}) + "\n"
        else:
            kind = "text/event-stream"
            events = streams.get(self.path, [completion])
            data = "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data.encode()))

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
messages = [{"role": "user", "content": "x"}]
openai_client = openai.OpenAI(api_key="x", base_url=origin + "/v1", max_retries=0)
anthropic_client = anthropic.Anthropic(api_key="x", base_url=origin, max_retries=0)
mistral_client = mistralai.client.Mistral(api_key="x", server_url=origin)
cohere_client = cohere.ClientV2(api_key="x", base_url=origin)


def collected(stream, text):
    with stream as events:
        return text(events)


calls = {
    "openai": lambda: [
        piece.choices[0].delta.content for piece in openai_client.chat.completions.create(
            model="m", messages=messages, stream=True)],
    "openai, collected": lambda: collected(
        openai_client.chat.completions.stream(model="m", messages=messages),
        lambda events: events.get_final_completion().choices[0].message.content),
    "anthropic": lambda: [
        event.type for event in anthropic_client.messages.create(
            model="m", max_tokens=9, messages=messages, stream=True)],
    "anthropic, collected": lambda: collected(
        anthropic_client.messages.stream(model="m", max_tokens=9, messages=messages),
        lambda events: events.get_final_text()),
    "mistralai": lambda: [
        event.data.choices[0].delta.content for event in mistral_client.chat.stream(model="m", messages=messages)],
    "cohere": lambda: [event.type for event in cohere_client.chat_stream(model="m", messages=messages)],
    "ollama": lambda: [
        piece.message.content for piece in ollama.Client(host=origin).chat(model="m", messages=messages, stream=True)],
    "litellm": lambda: [
        piece.choices[0].delta.content for piece in litellm.completion(
            model="openai/m", messages=messages, api_base=origin + "/v1", api_key="x", stream=True, num_retries=0)],
}
found = {}
for name, call in calls.items():
    try:
        found[name] = call()
    except Exception as error:
        found[name] = "error"
    print(f"{name:21} {found[name]}")
part = ["Do not "]
expected = {
    "openai": part, "openai, collected": "Do not ",
    "anthropic": ["message_start", "content_block_start", "content_block_delta"], "anthropic, collected": "Do not ",
    "mistralai": part, "cohere": ["message-start", "content-delta"], "ollama": part, "litellm": "error",
}
sys.exit(0 if found == expected else 1)
PYTHON
