"""A relay of datagrams between clients and a server on 127.0.0.1 that drops and reorders some: relay.py PORT [--drop N]
[--reorder N].

In each direction every Nth datagram is dropped, or sent after the next one, so that all runs are the same. The output lines
are "port N", "dropped", "reordered", and "early" for a packet that was sent before the end of the handshake (0-RTT, RFC 9000
17.2.3).
"""

import argparse
import asyncio


class Lane:
    """One direction of one client."""

    def __init__(self, options, send):
        self.options, self.send, self.count, self.held = options, send, 0, None

    def take(self, data):
        self.count += 1
        if data[0] & 0xF0 == 0xD0:
            print("early", flush=True)
        if self.options.drop and self.count % self.options.drop == 0:
            print("dropped", flush=True)
            return
        if self.options.reorder and self.count % self.options.reorder == 0 and self.held is None:
            self.held = data
            # Sends it anyway if no other datagram follows.
            asyncio.get_running_loop().call_later(0.02, self.release)
            return
        self.send(data)
        if self.held is not None:
            print("reordered", flush=True)
            self.release()

    def release(self):
        data, self.held = self.held, None
        if data is not None:
            self.send(data)


class Back(asyncio.DatagramProtocol):
    """The connection to the server for one client."""

    def __init__(self, down):
        self.down = down

    def datagram_received(self, data, address):
        self.down.take(data)


class Front(asyncio.DatagramProtocol):
    def __init__(self, options):
        self.options, self.lanes = options, {}

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        if address not in self.lanes:
            self.lanes[address] = asyncio.ensure_future(self.lane(address))
        asyncio.ensure_future(self.pass_on(data, self.lanes[address]))

    async def lane(self, address):
        down = Lane(self.options, lambda data: self.transport.sendto(data, address))
        loop = asyncio.get_running_loop()
        back, _ = await loop.create_datagram_endpoint(lambda: Back(down), remote_addr=("127.0.0.1", self.options.port))
        return Lane(self.options, back.sendto)

    async def pass_on(self, data, lane):
        (await lane).take(data)


async def main(options):
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Front(options), local_addr=("127.0.0.1", 0))
    print("port", transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--drop", type=int, default=0)
parser.add_argument("--reorder", type=int, default=0)
asyncio.run(main(parser.parse_args()))
