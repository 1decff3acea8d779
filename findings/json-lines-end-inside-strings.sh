#!/usr/bin/env bash
# Guess:    lines of JSON (NDJSON, JSON Lines) end with \n, so a client's function for the lines of a response gives one JSON value for
#           each: a JSON string has no \n in it. It may have U+2028, U+2029 and U+0085 as they are (RFC 8259 §7).
# Version:  httpx 0.28.1, httpx2 2.16.2, requests 2.34.2, niquests 3.21.2, aiohttp 3.14.5, ollama 0.6.3, ndjson 0.3.1, jsonlines 4.0.0
#           on Python 3; PyPI.
# Found:    iter_lines() of httpx and httpx2, and of requests and niquests with decode_unicode=True, ends a line at these three as well,
#           so that two halves come instead of the value; the client of Ollama, made of httpx, ends in the middle of the answer.
#           ndjson puts a comma in their place, and says nothing. aiohttp raises at a line of more than 524288 bytes.
# Seen:     {"text": "one<U+2028>two"} and {"text": "end"}, also with U+2029 and U+0085
#           httpx, httpx2                                   "Unterminated string"
#           requests, niquests with decode_unicode          "Unterminated string"
#           ollama                                          "Unterminated string"
#           ndjson.Decoder                                  "one,two", "end"
#           requests, niquests without it; aiohttp          both values
# Matters:  JSON.stringify and json.dumps(…, ensure_ascii=False) leave the three as they are, and text that was copied from a page or a
#           document has them: one such value ends a stream that has worked for months, or is stored changed.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    httpx==0.28.1 httpx2==2.16.2 requests==2.34.2 niquests==3.21.2 aiohttp==3.14.5 ollama==0.6.3 ndjson==0.3.1 jsonlines==4.0.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, http.server, json, sys, threading
import aiohttp, httpx, httpx2, jsonlines, ndjson, niquests, ollama, requests

separators = {"2028": "\u2028", "2029": "\u2029", "85": "\x85"}

def lines(path):
    if path == "long":
        texts = ["x" * 600_000, "end"]
    else:
        texts = [f"one{separators[path]}two", "end"]
    # What the API of Ollama sends has the text in "response".
    return "".join(json.dumps({"text": text, "response": text}, ensure_ascii=False) + "\n" for text in texts).encode()

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = lines(self.headers["Lines"] or self.path[1:])
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            pass

    do_POST = do_GET

    def log_message(self, *arguments):
        pass

class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass

server = QuietServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"

def with_httpx(case):
    with httpx.stream("GET", f"{base}/{case}") as response:
        yield from (json.loads(line)["text"] for line in response.iter_lines())

def with_httpx2(case):
    with httpx2.stream("GET", f"{base}/{case}") as response:
        yield from (json.loads(line)["text"] for line in response.iter_lines())

def with_requests_text(case):
    yield from (json.loads(line)["text"] for line in requests.get(f"{base}/{case}", stream=True).iter_lines(decode_unicode=True))

def with_requests(case):
    yield from (json.loads(line)["text"] for line in requests.get(f"{base}/{case}", stream=True).iter_lines())

def with_niquests_text(case):
    yield from (json.loads(line)["text"] for line in niquests.get(f"{base}/{case}", stream=True).iter_lines(decode_unicode=True))

def with_niquests(case):
    yield from (json.loads(line)["text"] for line in niquests.get(f"{base}/{case}", stream=True).iter_lines())

def with_aiohttp(case):
    async def read():
        async with aiohttp.ClientSession() as session, session.get(f"{base}/{case}") as response:
            return [json.loads(line)["text"] async for line in response.content]

    yield from asyncio.run(read())

def with_ollama(case):
    client = ollama.Client(base, headers={"Lines": case})
    yield from (part.response for part in client.generate(model="a", prompt="b", stream=True))

def with_ndjson(case):
    yield from (value["text"] for value in requests.get(f"{base}/{case}").json(cls=ndjson.Decoder))

def with_jsonlines(case):
    yield from (value["text"] for value in jsonlines.Reader(requests.get(f"{base}/{case}", stream=True).iter_lines()))

def values(read, case):
    found = []
    try:
        for text in read(case):
            found.append(text if len(text) < 100 else len(text))
    except Exception as error:
        found.append(type(error).__name__)
    return found

readers = (
    with_httpx, with_httpx2, with_requests_text, with_ollama, with_ndjson, with_requests, with_niquests_text, with_niquests,
    with_aiohttp, with_jsonlines,
)
seen = {read: {case: values(read, case) for case in (*separators, "long")} for read in readers}
server.shutdown()
for read, found in seen.items():
    print(f"{read.__name__[5:]:13}", found)

def expected(read, case):
    if case == "long":
        return ["LineTooLong"] if read is with_aiohttp else [600_000, "end"]
    if read in (with_httpx, with_httpx2, with_requests_text, with_niquests_text, with_ollama):
        return ["JSONDecodeError"]
    return ["one,two" if read is with_ndjson else f"one{separators[case]}two", "end"]

as_found = all(result == expected(read, case) for read, found in seen.items() for case, result in found.items())
print("as found: a line ends inside of a string" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
