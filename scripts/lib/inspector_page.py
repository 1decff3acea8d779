#!/usr/bin/env python3
"""Uses the inspector's page in a headless Chromium as a person would, and fails when something is wrong.

  inspector_page.py SCENARIO ADDRESS [ARGUMENT…]     LATInspectTests start it; the last line is a JSON value for the test
  inspector_page.py pictures ADDRESS FOLDER          screenshots in light and dark, wide and narrow
"""

import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.dont_write_bytecode = True
from chromium import Browser, Failure

SHOWN = "document.querySelector('#sums').innerText"


def expect(condition, message):
    if not condition:
        raise Failure(message)


def load(page, address, count=None):
    # An address that differs in its fragment only is not loaded again.
    page.open("about:blank")
    page.open(address)
    page.wait("!!document.querySelector('#sums')")
    page.wait("document.querySelectorAll('.row:not([hidden])').length > 0")
    if count:
        page.wait(f"{SHOWN}.startsWith({json.dumps(f'{count:,} calls')})")
    expect(page.run("location.hash") == "", "the key is still in the address")


def write_filter(page, text):
    page.key("/")
    page.wait("document.activeElement.id === 'filter'")
    page.run("document.querySelector('#filter').select()")
    page.key("Backspace", "")
    page.type(text)


def first(page):
    """Goes from the filter to the first call that is shown."""
    page.key("Enter")
    page.key("Home")
    page.wait("!!document.querySelector('.row[aria-selected=true]')")


def tab(page, name):
    number = ["Overview", "Headers", "Request", "Response", "Timing", "Messages"].index(name) + 1
    page.key(str(number))
    page.wait(f"(document.querySelector('#pane').dataset.shown || '').endsWith({json.dumps(name)})")
    return page.run("document.querySelector('#pane').innerText")


def clipboard(page, origin, action):
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=origin)
    page.run("navigator.clipboard.writeText('')")
    action()
    page.wait("document.querySelector('#toast').classList.contains('on')")
    return page.wait("navigator.clipboard.readText()")


def check_silence(page, address):
    """Fails when the console has an error or a warning, or when the page requested anything from another server."""
    for _ in range(20):
        if page.read(0.02) is None:
            break
    # For a page of plain text the browser itself requests an icon, at any time.
    problems = [problem for problem in page.problems if "/favicon.ico" not in problem]
    expect(not problems, f"the console says: {problems}")
    own = urlsplit(address)
    foreign = [url for url in page.addresses
               if not url.endswith("/favicon.ico") and not url.startswith((f"http://{own.netloc}/", "blob:", "about:", "data:"))]
    expect(not foreign, f"the page asked for {foreign}")


def origin(address):
    return f"http://{urlsplit(address).netloc}"


# MARK: Scenarios

def many(page, address, count):
    """Thousands of calls: filter, open, copy, keys, dark mode. Returns the copied texts, the longest task and the row count."""
    count = int(count)
    load(page, address, count)
    rows = page.run("document.querySelectorAll('.row').length")
    expect(rows < 150, f"{rows} rows exist for {count} calls, and not only those that are seen")
    page.run("window.longest = 0; new PerformanceObserver(list => { for (const task of list.getEntries()) "
             "window.longest = Math.max(window.longest, task.duration) }).observe({ type: 'longtask' })")
    page.run("document.querySelector('.grid').scrollTop = 20000")
    page.wait("[...document.querySelectorAll('.row:not([hidden])')].some(row => Math.abs(parseInt(row.style.top) - 20000) < 60)")

    write_filter(page, "status-code:404")
    page.wait(f"{SHOWN}.includes(' of ')")
    # Rows are drawn in the frame after the count.
    page.wait("(cells => cells.length && cells.every(cell => cell.innerText === '404'))"
              "([...document.querySelectorAll('.row:not([hidden]) .st')])")
    write_filter(page, "-status-code:2xx -status-code:4xx")
    page.wait(f"!{SHOWN}.startsWith('0')")
    write_filter(page, "is:nothing")
    page.wait("document.querySelector('#hint').innerText.startsWith('is: takes')")
    write_filter(page, "method:POST")
    page.wait(f"{SHOWN}.includes(' of ')")
    first(page)
    expect("Request headers" in tab(page, "Headers"), "no headers are shown")
    expect("ada" in tab(page, "Request"), "the request's body is not shown")
    tab(page, "Response")
    tab(page, "Timing")
    texts = {}
    for key, name in (("y", "curl"), ("s", "swift"), ("n", "entity"), ("h", "httpie")):
        texts[name] = clipboard(page, origin(address), lambda: page.key(key))
    page.key("Escape")
    page.wait("document.querySelector('#side').hidden")

    before = page.run("getComputedStyle(document.body).backgroundColor")
    page.key("d")
    after = page.run("getComputedStyle(document.body).backgroundColor")
    expect(before != after, "the key d changes no colour")
    page.key("d")
    page.key("?")
    page.wait("document.querySelector('#help').open")
    page.key("Escape")
    page.wait("!document.querySelector('#help').open")
    write_filter(page, "")
    page.key("Escape")
    page.key("End")
    page.key("k")
    page.key("k")
    expect(page.run("document.querySelector('[role=grid]').getAttribute('aria-activedescendant')"), "no row is active")
    page.key("t")
    page.wait("document.querySelectorAll('.totals tbody tr').length > 1")
    page.key("t")
    nameless = page.run("[...document.querySelectorAll('button, input, select')].filter(element => !element.hidden && "
                        "!(element.getAttribute('aria-label') || element.innerText.trim())).map(element => element.outerHTML)")
    expect(not nameless, f"a screen reader has no name for {nameless}")
    return {"texts": texts, "longest": page.run("window.longest"), "rows": rows}


def hostile(page, address, count):
    """Looks at every part of every call; no script in them may run."""
    load(page, address, int(count))
    page.key("Home")
    for _ in range(int(count)):
        for name in ("Overview", "Headers", "Request", "Response", "Timing"):
            tab(page, name)
            for view in page.run("[...document.querySelectorAll('#pane .seg button')].map(button => button.innerText)") or []:
                page.run(f"[...document.querySelectorAll('#pane .seg button')].find(button => button.innerText === {json.dumps(view)}).click()")
        page.key("ArrowDown")
        page.run("document.querySelector('.grid').focus()")
    seen = page.run("document.documentElement.innerHTML.includes('&lt;/script&gt;')")
    expect(page.run("window.ran === undefined"), "a script of a call ran")
    expect(page.run("document.querySelectorAll('script:not([src]), iframe, object, embed').length") == 0, "foreign elements came in")
    return {"seen": seen}


def views(page, address, trigger):
    """Pause, clear, pin, compare. Each request to the address `trigger` makes the program start one more call."""
    load(page, address)
    import urllib.request
    ask = lambda: urllib.request.urlopen(trigger).read()
    total = lambda: int(page.run(SHOWN).split(" ")[0].replace(",", ""))
    start = total()
    page.key(" ")
    page.wait("document.querySelector('#live').dataset.state === 'paused'")
    ask()
    page.wait("!document.querySelector('#live').innerText.startsWith('paused, 0')")
    expect(total() == start, "a paused page shows new calls")
    page.key(" ")
    page.wait(f"{SHOWN}.startsWith('{start + 1} ')")

    page.key("Home")
    page.key("p")
    page.wait("!!document.querySelector('.row:not([hidden]) .no svg')")
    page.key("x")
    page.wait(f"{SHOWN}.startsWith('1 ')")
    ask()
    ask()
    page.wait(f"{SHOWN}.startsWith('3 ')")
    page.key("Home")
    page.key("c")
    page.key("ArrowDown")
    page.key("c")
    page.wait("!!document.querySelector('#comparison')")
    text = page.run("document.querySelector('#comparison').innerText")
    expect("Number 1" in text and "URL" in text, f"the comparison says {text[:200]}")
    expect(page.run("document.querySelectorAll('#comparison tr.dif').length") > 0, "no difference is marked")
    page.key("Escape")
    page.wait("document.querySelector('#side').hidden")
    return {"start": start}


def export(page, address, count, folder):
    """Saves a HAR file and opens it again."""
    load(page, address, int(count))
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, eventsEnabled=False)
    page.key("e")
    end = time.monotonic() + 60
    while not (files := list(Path(folder).glob("*.har"))):
        expect(time.monotonic() < end, f"no file was saved: {page.run('document.querySelector(`#toast`).innerText')}")
        page.read(0.05)
    page.key("x")
    page.wait(f"{SHOWN}.startsWith('0 ')")
    node = page.call("DOM.querySelector", nodeId=page.call("DOM.getDocument")["root"]["nodeId"], selector="#file")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(files[0])])
    page.wait(f"{SHOWN}.startsWith('{int(count):,} calls')")
    page.key("Home")
    text = tab(page, "Headers")
    body = tab(page, "Response")
    return {"file": str(files[0]), "headers": text, "body": body}


def file(page, address, count):
    """The page of a HAR file."""
    load(page, address, int(count))
    page.key("Home")
    return {"headers": tab(page, "Headers"), "body": tab(page, "Response"), "request": tab(page, "Request"),
            "hint": page.run("document.querySelector('#hint').innerText"),
            "status": page.run("document.querySelector('.row:not([hidden]) .st').innerText"),
            "curl": clipboard(page, origin(address), lambda: page.key("y"))}


def strange(page, address):
    """A HAR file that is large, or has wrong types: what the page says of it. Looks at every part of its first calls."""
    load(page, address)
    page.wait("document.querySelector('#hint').innerText !== ''")
    page.key("Home")
    for _ in range(70):
        for name in ("Overview", "Headers", "Request", "Response", "Timing"):
            tab(page, name)
        page.key("ArrowDown")
        page.run("document.querySelector('.grid').focus()")
        if page.run("document.querySelectorAll('.row').length") > 1 and page.run(f"{SHOWN}.startsWith('20,000')"):
            break
    return {"hint": page.run("document.querySelector('#hint').innerText"), "sums": page.run(SHOWN)}


def bounded(page, address):
    """The list of a page that stays open while calls go on and on, some of them while it is paused."""
    load(page, address)
    return page.run("""import('./store.js').then(({ Store, limit }) => {
        const store = new Store();
        const batch = from => Array.from({ length: 1000 }, (_, index) => ({ id: from + index, number: from + index,
            method: 'GET', url: 'http://a.test/' + (from + index), state: 'done', startedDateTime: '2026-01-01T00:00:00Z' }));
        for (let from = 0; from < 60000; from += 1000) {
            store.take(batch(from), 'live:1');
            if (from === 0) store.calls[7].pinned = true;
        }
        const kept = [store.calls.length, store.byKey.size];
        store.pause(true);
        for (let from = 60000; from < 100000; from += 1000) store.take(batch(from), 'live:1');
        const held = store.held.size;
        store.pause(false);
        const file = new Store();
        file.take(batch(1).slice(0, 9), 'file:1');
        file.clear();
        const twice = new Store();
        twice.take(batch(1).slice(0, 9), 'live:1');
        twice.calls[2].pinned = true;
        twice.clear();
        twice.clear();
        twice.take(batch(1).slice(0, 9), 'live:1');
        return { limit, kept, held, after: [store.calls.length, store.byKey.size, store.held.size],
            cleared: [file.calls.length, twice.calls.length],
            pinned: store.calls[0].number, last: store.calls.at(-1).number };
    })""")


def locked(page, address):
    """Without the key, no call is shown. Under another host name, the server refuses every request."""
    page.open(address.split("#")[0])
    page.wait("document.querySelector('#live')?.dataset.state === 'refused'")
    text = page.run("document.querySelector('#hint').innerText")
    page.problems = [problem for problem in page.problems if "401" not in problem]
    check_silence(page, address)
    page.open(address.replace("127.0.0.1", "rebound.test"))
    page.wait("document.body.innerText.includes('names another server')")
    page.problems, page.addresses = [], []
    return {"hint": text}


def replaced(page, address, trigger):
    """Another program has the port now, as the request to `trigger` makes it so: the page says that its key is of no use."""
    load(page, address)
    import urllib.request
    urllib.request.urlopen(trigger).read()
    page.wait("document.querySelector('#live').dataset.state === 'refused'")
    text = page.run("document.querySelector('#hint').innerText")
    page.problems = []
    return {"hint": text}


def live(page, address, trigger):
    """Messages that come one by one, a search in bodies, groups by row, and a request that is changed and sent again."""
    load(page, address)
    import urllib.request
    write_filter(page, "method:GET /live")
    first(page)
    page.key("6")
    page.wait("document.querySelectorAll('#pane .message').length === 2")
    page.run("document.querySelector('#pane .message summary').click()")
    # One message more is sent, which is added below, and what is open stays open.
    urllib.request.urlopen(trigger).read()
    page.wait("document.querySelectorAll('#pane .message').length === 3")
    expect(page.run("document.querySelector('#pane .message').open"), "an opened message was closed by the next one")
    messages = page.run("document.querySelector('#pane').innerText")
    headers = tab(page, "Headers")
    page.key("Escape")

    write_filter(page, "body:needle")
    # The filter before it shows one call, too.
    page.wait("(document.querySelector('.row')?.innerText ?? '').includes('/orders')")
    first(page)
    page.key("r")
    page.wait("document.querySelector('#resend').open")
    form = page.run("[...document.querySelectorAll('#resend input, #resend textarea')].map(field => field.value)")
    page.run("Object.assign(document.querySelectorAll('#resend input')[1], { value: document.querySelectorAll('#resend input')[1].value + '?again=1' })")
    page.run('document.querySelectorAll("#resend textarea")[1].value = `{"changed": true}`')
    page.run("document.querySelector('#resend .main').click()")
    page.wait("!document.querySelector('#resend').open")
    write_filter(page, "again=1")
    page.wait(f"{SHOWN}.startsWith('1 of')")
    page.key("Escape")
    page.key("t")
    page.wait("document.querySelectorAll('.totals tbody tr').length > 1")
    page.run("[...document.querySelectorAll('.totals .seg button')].find(button => button.innerText === 'Row').click()")
    page.wait("document.querySelector('.totals thead').innerText.startsWith('Row')")
    rows = page.run("document.querySelector('.totals tbody').innerText")
    page.run("[...document.querySelectorAll('.totals td button')].find(button => button.innerText === 'item').click()")
    page.wait("document.querySelector('#filter').value === 'row:\"item\"'")
    page.wait(f"{SHOWN}.startsWith('2 of')")
    return {"messages": messages, "headers": headers, "form": form, "rows": rows}


def resend(page, address):
    """A body that is sent again unchanged, and changed; and a line that is no field."""
    load(page, address)
    area = "document.querySelectorAll('#resend textarea')"

    def send():
        page.run("document.querySelector('#resend .main').click()")
        page.wait("!document.querySelector('#resend').open")

    def again(count):
        page.wait(f"{SHOWN}.startsWith('{count} call')")
        page.key("Home")
        page.key("r")
        page.wait("document.querySelector('#resend').open")

    again(1)
    send()
    again(2)
    page.run(f"{area}[1].value = {area}[1].value.replace('two', 'three')")
    page.run(f"{area}[0].value += `\\nX-No-Colon here`")
    page.run("document.querySelector('#resend .main').click()")
    page.wait("!document.querySelector('#resend .note').hidden")
    note = page.run("document.querySelector('#resend .note').innerText")
    page.run(f"{area}[0].value = {area}[0].value.replace('X-No-Colon', 'X-Colon:')")
    send()
    page.wait(f"{SHOWN}.startsWith('3 calls')")
    return {"note": note}


def outbox(page, address, trigger):
    """The entries of an outbox, which are read again while they are shown."""
    load(page, address)
    import urllib.request
    page.key("b")
    page.wait("document.querySelectorAll('#boxes tbody tr').length === 2")
    before = page.run("document.querySelector('#boxes').innerText")
    expect(page.run("document.querySelector('#outbox').getAttribute('aria-pressed')") == "true", "the button is not pressed")
    urllib.request.urlopen(trigger).read()
    # The counts may have been read before the entry was dropped; they are read again.
    page.wait("document.querySelectorAll('#boxes tbody tr').length === 1"
              " && document.querySelector('#boxes').innerText.includes('0 dead')")
    after = page.run("document.querySelector('#boxes').innerText")
    # The first click asks, the second drops. The page forgets the first one after five seconds, and a busy browser shows what it
    # asks only after that: then it is clicked again.
    drop = "document.querySelector('#boxes button[id^=drop]')"
    click = f"(window.clickedAt = Date.now(), {drop}.click())"
    page.run(f"{drop}.focus(), {click}")
    page.wait(f"{drop}.innerText === 'Drop for good' || (Date.now() - clickedAt > 6000 && {click}, false)")
    armed, focused = page.run(f"{drop}.innerText"), page.run(f"document.activeElement === {drop}")
    page.run(click)
    page.wait("document.querySelectorAll('#boxes tbody tr').length === 0"
              f" || (Date.now() - clickedAt > ({drop}.innerText === 'Drop' ? 6000 : 2000) && {click}, false)")
    # The totals take its place, and the list theirs.
    page.key("t")
    page.wait("document.querySelector('#boxes').hidden && document.querySelectorAll('.totals tbody tr').length > 1")
    page.key("t")
    page.wait("document.querySelectorAll('.row:not([hidden])').length > 0")
    return {"before": before, "after": after, "armed": armed, "isFocused": focused}


def pictures(page, address, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def take(name, size=(1440, 900), act=None):
        for scheme in ("light", "dark"):
            page.resize(*size)
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            load(page, address)
            if act:
                act()
            page.run("document.querySelector('#toast').classList.remove('on')")
            page.run("new Promise(done => setTimeout(done, 400))")
            page.picture(folder / f"{name}-{scheme}.png")

    def opened(words, name):
        def act():
            write_filter(page, words)
            first(page)
            tab(page, name)
        return act

    take("list")
    take("overview", act=opened("is:retried", "Overview"))
    take("headers", act=opened("method:POST", "Headers"))
    take("body", act=opened("mime-type:json status-code:200", "Response"))
    take("timing", act=opened("is:retried", "Timing"))
    take("totals", act=lambda: page.key("t"))

    def resend():
        opened("method:POST", "Request")()
        page.key("r")
        page.wait("document.querySelector('#resend').open")

    take("resend", act=resend)
    take("messages", act=opened("/prices", "Messages"))
    take("messages-narrow", (420, 800), opened("/prices", "Messages"))
    take("keys", act=lambda: page.key("?"))
    take("narrow", (420, 800))
    take("narrow-headers", (420, 800), opened("method:GET", "Headers"))
    return {"folder": str(folder)}


SCENARIOS = {each.__name__: each for each in (many, hostile, views, export, file, strange, bounded, locked, replaced, live, resend, outbox, pictures)}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in SCENARIOS:
        sys.exit(__doc__.strip())
    name, address, *rest = sys.argv[1:]
    try:
        with Browser() as page:
            result = SCENARIOS[name](page, address, *rest)
            check_silence(page, address)
    except Failure as failure:
        print(f"{name}: {failure}")
        sys.exit(1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
