"""A headless Chromium, driven over the DevTools protocol through a pipe. Needs nothing but Python and the browser."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path


class Failure(Exception):
    pass


class Navigated(Failure):
    """The page moved to another address before the expression had its value."""


def program():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page. Collects the errors and warnings of the console, and every address it asks for."""

    def __init__(self, size=(1440, 900), dark=False, scale=1):
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()
        self.buffer, self.number, self.events = b"", 0, []
        self.problems, self.addresses, self.session = [], [], None
        arguments = [
            program(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-default-apps", "--disable-extensions", "--mute-audio", "--no-proxy-server", "--hide-scrollbars",
            "--host-resolver-rules=MAP rebound.test 127.0.0.1", f"--user-data-dir={self.folder}", "about:blank"]

        def pipes():
            # The browser reads from descriptor 3 and writes to 4. The ends of the pipes may already have these numbers.
            first, second = os.dup(to_read), os.dup(to_write)
            high_first, high_second = os.dup(first), os.dup(second)
            os.dup2(high_first, 3)
            os.dup2(high_second, 4)

        self.process = subprocess.Popen(
            arguments, preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "HOME": self.folder})
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(*size, scale)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.writing)
        os.close(self.reading)
        shutil.rmtree(self.folder, ignore_errors=True)

    # MARK: The protocol

    def call(self, method, **parameters):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writing, data):]
        end = time.monotonic() + 120
        while True:
            answer = self.read(end - time.monotonic())
            if answer is None:
                raise Failure(f"Chromium did not answer {method} within 120 s")
            if answer.get("id") == number:
                if "error" in answer:
                    text = answer["error"]["message"]
                    moved = any(words in text for words in ("navigated or closed", "context was destroyed", "Cannot find context"))
                    raise (Navigated if moved else Failure)(f"{method}: {text}")
                return answer["result"]

    def read(self, seconds):
        """The next message, or None when there is none in time. Events are noted on the way."""
        while b"\0" not in self.buffer:
            if not select.select([self.reading], [], [], max(0, seconds))[0]:
                return None
            piece = os.read(self.reading, 1 << 20)
            if not piece:
                raise Failure("Chromium ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        self.note(message.get("method"), message.get("params") or {})
        return message

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(value.get("value", value.get("description"))) for value in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.addresses.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog opened: {parameters['message']}")

    # MARK: What a test does

    def open(self, url):
        result = self.call("Page.navigate", url=url)
        if result.get("errorText"):
            raise Failure(f"{url}: {result['errorText']}")

    def run(self, script):
        """The value of an expression, or of a promise that it gives."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(f"{script}: {details.get('exception', {}).get('description') or details['text']}")
        return result["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until an expression is true, and returns its value. While the page moves to another address, it is not true."""
        def value_now():
            try:
                return self.run(script)
            except Navigated:
                return None

        end = time.monotonic() + seconds
        while not (value := value_now()):
            if time.monotonic() > end:
                text = self.run("document.body.innerText.slice(0, 600)")
                raise Failure(f"still not true after {seconds} s: {script}\nthe page says: {text}\nproblems: {self.problems}")
            self.read(0.05)
        return value

    def key(self, key, text=None, shift=False):
        text = text if text is not None else (key if len(key) == 1 else {"Enter": "\r"}.get(key, ""))
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
                "ArrowDown": 40, "PageUp": 33, "PageDown": 34, "Backspace": 8}.get(key, ord(key.upper()) if len(key) == 1 else 0)
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        place = self.wait(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
                          " const r = e.getBoundingClientRect(); return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null })()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left" if kind != "mouseMoved" else "none", clickCount=1)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def picture(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
