"""tuspyserver on a port of 127.0.0.1: tus_server.py FOLDER [--port N] [--max-size BYTES] [--extensions NAMES]
[--rate BYTES].

It prints "port N", and then a line for each request when its body has ended: method, status, and the number of bytes of the
body that arrived. --rate limits the bytes of bodies per second. With --extensions, the answer to OPTIONS names these instead, as
that of a server that has no others.
"""

import argparse
import asyncio
import functools
import socket

import tuspyserver.request
import uvicorn
from fastapi import FastAPI
from tuspyserver import create_tus_router

# tuspyserver waits 30 seconds for the lock of an upload and blocks its event loop meanwhile, so a request whose client has died
# cannot end and release it. With a short wait it answers 503, and the next attempt finds the lock released.
tuspyserver.request.acquire_upload_lock = functools.partial(tuspyserver.request.acquire_upload_lock, timeout=0.05)

options = argparse.ArgumentParser()
options.add_argument("folder")
options.add_argument("--port", type=int, default=0)
options.add_argument("--max-size", type=int, default=1 << 40)
options.add_argument("--extensions")
options.add_argument("--rate", type=int)
options = options.parse_args()

app = FastAPI()
app.include_router(create_tus_router(prefix="files", files_dir=options.folder, max_size=options.max_size))


async def counted(scope, receive, send):
    if scope["type"] != "http":
        return await app(scope, receive, send)
    count, status = 0, 0

    async def read():
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if options.rate:
            await asyncio.sleep(len(message.get("body", b"")) / options.rate)
        return message

    async def write(message):
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            if options.extensions is not None and scope["method"] == "OPTIONS":
                message["headers"] = [
                    (name, options.extensions.encode() if name == b"tus-extension" else value)
                    for name, value in message["headers"]
                ]
        await send(message)

    try:
        await app(scope, read, write)
    finally:
        print(scope["method"], status, count, flush=True)


listener = socket.create_server(("127.0.0.1", options.port))
print("port", listener.getsockname()[1], flush=True)
asyncio.run(uvicorn.Server(uvicorn.Config(counted, log_level="critical")).serve([listener]))
