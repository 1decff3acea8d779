"""Autobahn's sections 12 and 13: the server sends messages of one size, and compares what comes back.

The contents are like those of Autobahn's files. They are generated, and the same in every run.
"""
import functools
import json
import random
import zlib

WORDS = (
    "und der die das zu in ein nicht ich Faust Mephisto Geist wär für über schön Größe Licht Nacht Tag Wort Tat Leben Herz Welt "
    "Himmel Erde Feuer Wasser Traum Zeit Weg Haus gehen sehen kommen sprechen wissen glauben".split())


def picture(chance):
    """A grey bitmap of 512 × 512: round slopes, and the noise of a camera."""
    def row(y):
        return bytes(((x * x + y * y) // 900 + chance.randrange(6)) % 256 for x in range(512))

    return b"BM" + (263_222).to_bytes(4, "little") + bytes(1_072) + b"".join(row(y) for y in range(512))


def prose(chance):
    def line():
        return " ".join(chance.choices(WORDS, range(len(WORDS), 0, -1), k=chance.randint(4, 9))).capitalize() + ".\n"

    return "".join(line() for _ in range(6_000)).encode()


def records(chance):
    return json.dumps(
        [
            {
                "id": number, "name": " ".join(chance.choices(WORDS, k=2)), "price": round(chance.random() * 500, 2),
                "position": [chance.uniform(-180, 180), chance.uniform(-90, 90)], "active": chance.random() < 0.5,
                "tags": chance.sample(WORDS, 3), "parent": None,
            }
            for number in range(1_200)
        ],
        ensure_ascii=False, indent=1).encode()


def page(chance):
    rows = (
        f'<tr class="row{n % 2}"><td><a href="/item/{chance.randrange(10**6)}">{chance.choice(WORDS)} &amp; '
        f"{chance.choice(WORDS)}</a></td><td>{chance.random():.4f}</td></tr>\n" for n in range(3_000))
    return ("<!DOCTYPE html>\n<html><body><table>\n" + "".join(rows) + "</table></body></html>\n").encode()


def document(chance):
    """As in a PDF: dictionaries in text, and between them streams that are compressed already."""
    def part(number):
        stream = zlib.compress(prose(chance)[: chance.randint(5_000, 60_000)]) + chance.randbytes(3_000)
        return b"%d 0 obj\n<< /Type /XObject /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream\nendobj\n" % (
            number, len(stream), stream)

    return b"%PDF-1.4\n" + b"".join(part(number) for number in range(64))


# Whether the messages are text, and how the content is made.
CONTENTS = {
    "json": (True, records), "picture": (False, picture), "prose": (False, prose), "html": (True, page),
    "document": (False, document),
}


@functools.cache
def content(kind):
    return CONTENTS[kind][1](random.Random(12))


def message(kind, size, number):
    """The next `size` bytes of the content, which begins again at its end. Texts have whole characters only."""
    whole = content(kind)
    start = number * size % len(whole)
    part = (whole[start : start + size] + whole)[:size]
    if not CONTENTS[kind][0]:
        return part
    return part.decode(errors="ignore").encode().ljust(size)


def difference(sent, received):
    if type(sent) is not type(received):
        return f"{type(received).__name__} instead of {type(sent).__name__}"
    same = next((n for n, (one, other) in enumerate(zip(sent, received)) if one != other), "the end")
    return f"{len(received)} instead of {len(sent)}, first difference at {same}"


async def run(socket, kind, size, fragment, count):
    """Sends the messages, and compares what comes back. Closes with 1000 when all are equal; the reason has their number and
    the parameters of the extension. Closes with 4001 and the difference when one is not."""
    size, fragment, count = int(size), int(fragment), int(count)
    is_text = CONTENTS[kind][0]
    for number in range(count):
        sent = message(kind, size, number)
        pieces = [sent[at : at + fragment] for at in range(0, size, fragment)] if fragment else sent
        await socket.send(pieces, text=is_text)
        received = await socket.recv()
        if is_text:
            sent = sent.decode()
        if received != sent:
            await socket.close(4001, f"message {number}: {difference(sent, received)}")
            return
    parameters = socket.response.headers.get("Sec-WebSocket-Extensions", "not compressed")
    await socket.close(1000, f"{count} equal, {parameters}")
