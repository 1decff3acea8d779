"""A server for tests that echoes the messages of WebSockets, by one of two libraries.

    websocket_peer.py websockets|aiohttp [SETTINGS] [CERTIFICATE]

It prints "port N" when it listens on 127.0.0.1. SETTINGS is JSON: "deflate" (alternative parameters of
permessage-deflate, of which the first that the client's offer permits apply; websockets only), "subprotocols".
CERTIFICATE is a file with certificate and key, for TLS. websockets serves Autobahn's cases of compression at
/case/CONTENT/SIZE/FRAGMENT/COUNT, as websocket_cases.py describes; aiohttp serves event streams at /events/N.
"""
import asyncio
import json
import ssl
import sys

import websocket_cases


async def with_websockets(settings, context):
    from websockets.asyncio.server import serve
    from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory

    async def answer(socket):
        _, first, *rest = socket.request.path.split("/")
        if first == "case":
            return await websocket_cases.run(socket, *rest)
        async for message in socket:
            if message == "close":
                await socket.close(4000, "as you like")
            else:
                await socket.send(message)

    deflate = settings.get("deflate")
    extensions = None if deflate is None else [ServerPerMessageDeflateFactory(**parameters) for parameters in deflate]
    server = await serve(
        answer, "127.0.0.1", 0, ssl=context, compression=None, extensions=extensions, max_size=None,
        subprotocols=settings.get("subprotocols"))
    return next(iter(server.sockets)).getsockname()[1]


async def with_aiohttp(settings, context):
    from aiohttp import WSMsgType, web

    async def echo(request):
        socket = web.WebSocketResponse(protocols=settings.get("subprotocols", ()), max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type == WSMsgType.TEXT and message.data == "close":
                await socket.close(code=4000, message=b"as you like")
            elif message.type == WSMsgType.TEXT:
                await socket.send_str(message.data)
            elif message.type == WSMsgType.BINARY:
                await socket.send_bytes(message.data)
        return socket

    async def events(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(int(request.match_info["count"])):
            await response.write(f"id: {number}\ndata: event {number}\n\n".encode())
        return response

    app = web.Application()
    app.router.add_get("/events/{count}", events)
    app.router.add_get("/{rest:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    return runner.addresses[0][1]


async def main():
    kind = sys.argv[1]
    settings = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    context = None
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3])
    port = await (with_websockets if kind == "websockets" else with_aiohttp)(settings, context)
    print("port", port, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
