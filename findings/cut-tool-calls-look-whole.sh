#!/usr/bin/env bash
# Guess:    when a model reaches its limit of tokens inside the arguments of a tool call, the JSON is cut, so that no SDK can read
#           it: the program gets an error, or the text as it is, and no agent calls the tool.
# Version:  langchain 1.5.2 with langchain-openai 1.7.4, langchain-anthropic 1.7.10 and langchain-core 1.8.3, anthropic 2.14.0,
#           openai 3.57.0, pydantic-ai-slim 2.68.0, from PyPI; the stream is whole and says `length` or `max_tokens` at its end.
# Found:    both of LangChain close the JSON themselves when they stream, and give the result in `tool_calls`, not in
#           `invalid_tool_calls`, and an agent of LangChain whose messages are streamed calls the tool with it: 36 of a 365. Without
#           streaming the same text of OpenAI is invalid. The final message of anthropic has the closed JSON as `input`, but its
#           tool runner calls nothing. openai and pydantic-ai raise.
# Seen:     the arguments {"keep_days": 36 of {"keep_days": 365, …}
#           langchain-openai, langchain-anthropic   tool_calls: {'keep_days': 36}   an agent calls f(keep_days=36)
#           langchain-openai, not streamed          an invalid tool call
#           anthropic                               input: {'keep_days': 36}        its tool runner calls nothing
#           openai LengthFinishReasonError          pydantic-ai IncompleteToolCall
#           the arguments {"path": "/srv/data of {"path": "/srv/data/old"}: LangChain /srv/data, anthropic nothing of it
# Matters:  an agent removes what is older than 36 days, or the folder above. The arguments fit the schema, so no check finds it.
# So here:  a value is decoded when all of its bytes are there; JSON that is cut is an error.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check langchain==1.5.2 \
    langchain-openai==1.7.4 langchain-anthropic==1.7.10 langchain-core==1.8.3 anthropic==2.14.0 openai==3.57.0 \
    'pydantic-ai-slim[openai,anthropic]==2.68.0'; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

LANGSMITH_TRACING=false "$work/venv/bin/python" - <<'PYTHON'
import asyncio, http.server, json, logging, os, sys, threading, warnings

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
warnings.simplefilter("ignore")
logging.disable()
import anthropic, openai
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

cut = {"number": '{"keep_days": 36', "path": '{"path": "/srv/data'}
arguments = None
usage = {"input_tokens": 1, "output_tokens": 1}

def messages():
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": usage}
    block = {"type": "tool_use", "id": "t", "name": "remove", "input": {}}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}

def completion(kind, name, value, reason):
    choice = {"index": 0, name: value, "finish_reason": reason}
    return {"id": "c", "object": kind, "created": 1, "model": "m", "choices": [choice]}

def chunks():
    call = {"index": 0, "id": "t", "type": "function", "function": {"name": "remove", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": arguments}}
    for delta, reason in (
        ({"role": "assistant", "tool_calls": [call]}, None), ({"tool_calls": [more]}, None), ({}, "length"),
    ):
        yield completion("chat.completion.chunk", "delta", delta, reason)

class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = "text/event-stream"
        if "/messages" in self.path:
            data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in messages())
        elif asked.get("stream"):
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks()) + "data: [DONE]\n\n"
        else:
            kind = "application/json"
            call = {"id": "t", "type": "function", "function": {"name": "remove", "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            data = json.dumps(completion("chat.completion", "message", message, "length"))
        data = data.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
question = [{"role": "user", "content": "x"}]
schema = {"type": "object", "properties": {"keep_days": {"type": "integer"}, "path": {"type": "string"}}}
openai_tool = {"type": "function", "function": {"name": "remove", "parameters": schema}}
anthropic_tool = {"name": "remove", "description": "x", "input_schema": schema}
client = anthropic.Anthropic(api_key="x", base_url=origin, max_retries=0)
openai_client = openai.OpenAI(api_key="x", base_url=origin + "/v1", max_retries=0)
chat_openai = ChatOpenAI(model="m", api_key="x", base_url=origin + "/v1", max_retries=0)
chat_anthropic = ChatAnthropic(model="m", api_key="x", base_url=origin, max_retries=0)
langchain_openai = chat_openai.bind_tools([openai_tool])
langchain_anthropic = chat_anthropic.bind_tools([anthropic_tool])

def calls_of(message):
    return [call["args"] for call in message.tool_calls], len(message.invalid_tool_calls)

def streamed(model):
    whole = None
    for piece in model.stream("x"):
        whole = piece if whole is None else whole + piece
    return calls_of(whole)

def of_an_agent(model):
    called = []

    def remove(keep_days: int = 0, path: str = "") -> str:
        """Removes old files."""
        called.append({"keep_days": keep_days, "path": path})
        return "done"

    try:
        # Two steps are one question and one tool. The model would ask for the tool again.
        for _ in create_agent(model, [remove]).stream(
            {"messages": question}, stream_mode="messages", config={"recursion_limit": 2},
        ):
            pass
    except Exception as error:
        if type(error).__name__ != "GraphRecursionError":
            raise
    return called

def of_anthropic():
    with client.messages.stream(model="m", max_tokens=9, messages=question, tools=[anthropic_tool]) as stream:
        return stream.get_final_message().content[0].input

def of_the_runner():
    called = []

    @anthropic.beta_tool
    def remove(keep_days: int = 0, path: str = "") -> str:
        """Removes old files."""
        called.append({"keep_days": keep_days, "path": path})
        return "done"

    for stream in client.beta.messages.tool_runner(
        model="m", max_tokens=9, messages=question, tools=[remove], stream=True, max_iterations=2,
    ):
        stream.get_final_message()
    return called

def of_openai():
    with openai_client.chat.completions.stream(model="m", messages=question, tools=[openai_tool]) as stream:
        return stream.get_final_completion().choices[0].message.tool_calls[0].function.arguments

def of_pydantic_ai():
    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=openai.AsyncOpenAI(
        api_key="x", base_url=origin + "/v1", max_retries=0))))
    called = []

    @agent.tool_plain
    def remove(keep_days: int = 0, path: str = "") -> str:
        called.append((keep_days, path))
        return "done"

    async def run():
        async with agent.run_stream("x") as result:
            return await result.get_output()

    asyncio.run(run())
    return called

readers = {
    "langchain-openai": lambda: streamed(langchain_openai),
    "langchain-openai, not streamed": lambda: calls_of(langchain_openai.invoke("x")),
    "langchain-anthropic": lambda: streamed(langchain_anthropic),
    "langchain, agent with openai": lambda: of_an_agent(chat_openai),
    "langchain, agent with anthropic": lambda: of_an_agent(chat_anthropic), "anthropic": of_anthropic,
    "anthropic, tool runner": of_the_runner, "openai": of_openai, "pydantic-ai": of_pydantic_ai,
}
found = {}
for kind, arguments in cut.items():
    print(arguments)
    for name, read in readers.items():
        try:
            found[kind, name] = read()
        except Exception as error:
            found[kind, name] = type(error).__name__
        print(f"    {name:31} {found[kind, name]}")
number, path = {"keep_days": 36}, {"path": "/srv/data"}
agents = ("langchain, agent with openai", "langchain, agent with anthropic")
expected = {
    **{("number", name): [{"keep_days": 36, "path": ""}] for name in agents},
    **{("path", name): [{"keep_days": 0, "path": "/srv/data"}] for name in agents},
    ("number", "langchain-openai"): ([number], 0), ("path", "langchain-openai"): ([path], 0),
    ("number", "langchain-openai, not streamed"): ([], 1), ("path", "langchain-openai, not streamed"): ([], 1),
    ("number", "langchain-anthropic"): ([number], 0), ("path", "langchain-anthropic"): ([path], 0),
    ("number", "anthropic"): number, ("path", "anthropic"): {},
    ("number", "anthropic, tool runner"): [], ("path", "anthropic, tool runner"): [],
    ("number", "openai"): "LengthFinishReasonError", ("path", "openai"): "LengthFinishReasonError",
    ("number", "pydantic-ai"): "IncompleteToolCall", ("path", "pydantic-ai"): "IncompleteToolCall",
}
as_found = found == expected
print("as found: cut arguments look whole" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
