"""A headless Chromium for tests, driven through its DevTools protocol: open a page, ask it questions."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120.0
"""Seconds to wait for the browser or a page before giving up."""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    # Whatever a page asks of another host fails, visibly, on any machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def find_chromium() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Visit:
    """What happened while a page was open."""

    requests: list[str] = field(default_factory=list)
    """Every address it asked for, in order."""
    failures: list[str] = field(default_factory=list)
    """Requests without an answer, or with one of 400 and above."""
    console: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and exceptions nobody caught."""


class Chromium:
    """One browser with one tab; a context manager that ends the browser and removes its profile."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._calls = 0

    def __enter__(self) -> Self:
        self._profile = Path(tempfile.mkdtemp(prefix="chromium-"))
        self._process = subprocess.Popen(
            [self._program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self._profile)},
        )
        try:
            import websocket  # here, because the tests on a GPU box do without

            self._socket = websocket.create_connection(
                self._tab(), timeout=PATIENCE, suppress_origin=True, max_size=None
            )
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: object) -> dict:
        """Call a method of the protocol and return its result; events that arrive meanwhile are noted."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == self._calls:
                if "error" in message:
                    raise RuntimeError(f"Chromium refused {method}: {message['error']['message']}")
                return message["result"]

    def open(self, url: str) -> Visit:
        """Load `url`, wait until it, its fonts and its formulas are drawn, and return what happened."""
        self.visit = Visit()
        self._loaded = False
        problem = self.call("Page.navigate", url=url).get("errorText")
        if problem:
            raise RuntimeError(f"Chromium could not open {url}: {problem}")
        while not self._loaded:
            self._receive()
        self.evaluate(
            "(window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => document.fonts.ready).then(() => true)"
        )
        return self.visit

    def evaluate(self, expression: str) -> object:
        """Return the value of a JavaScript expression in the open page, once its promise is kept."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression!r} failed in the page: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path: Path, *, width: int, height: int = 0, dark: bool = False) -> None:
        """Save the open page as a PNG at a window `width`; a `height` of 0 takes the whole page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {
            "width": width,
            "height": height or 900,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        self.call("Emulation.setDeviceMetricsOverride", **size)
        if not height:
            size["height"] = int(self.evaluate("document.documentElement.scrollHeight"))
            self.call("Emulation.setDeviceMetricsOverride", **size)
        time.sleep(0.3)  # images that load when they come into view
        picture = self.call("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    def _receive(self) -> dict:
        message = json.loads(self._socket.recv())
        if hasattr(self, "visit"):
            self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, told: dict) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.visit.requests.append(told["request"]["url"])
        elif event == "Network.responseReceived" and told["response"]["status"] >= 400:
            self.visit.failures.append(f"{told['response']['status']} {told['response']['url']}")
        elif event == "Network.loadingFailed":
            self.visit.failures.append(told["errorText"])
        elif event == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.visit.console.append(
                details.get("exception", {}).get("description", details["text"])
            )
        elif event == "Runtime.consoleAPICalled" and told["type"] in (
            "error",
            "warning",
        ):
            self.visit.console.append(" ".join(str(part.get("value", "")) for part in told["args"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] in (
            "error",
            "warning",
        ):
            self.visit.console.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def _tab(self) -> str:
        """Return the address of the open tab, once the browser has said where it listens."""
        note = self._profile / "DevToolsActivePort"
        end = time.monotonic() + PATIENCE
        while not (note.exists() and note.read_text().strip()):
            if self._process.poll() is not None:
                raise RuntimeError(f"Chromium ended at once with status {self._process.returncode}")
            if time.monotonic() > end:
                raise RuntimeError(f"Chromium did not say where it listens within {PATIENCE:g} s")
            time.sleep(0.05)
        port = note.read_text().split()[0]
        while True:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE
            ) as page:
                tabs = [tab for tab in json.load(page) if tab["type"] == "page"]
            if tabs:
                return tabs[0]["webSocketDebuggerUrl"]
            if time.monotonic() > end:
                raise RuntimeError(f"Chromium opened no tab within {PATIENCE:g} s")
            time.sleep(0.05)
