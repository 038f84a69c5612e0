"""Serve the workbench on the loopback address, to browsers that have shown its token."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from shiny import App
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from postrand.app.door import HOST, ICON, POLICY, Guard, Keys, file_policy, page_policy
from postrand.app.framework import quick_turns, uncollected
from postrand.app.page import page, served
from postrand.app.private_folder import private_folder
from postrand.support.signals import SIGNALS

if TYPE_CHECKING:
    from postrand.app.tabs import Store

_ALONE = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
"""On Windows, what the others call reuse would let another program take the same port."""
_SHOWN = {".html": "text/html", ".toml": "text/plain; charset=utf-8", ".zip": "application/zip"}


class Late:
    """The part of the application that computes: loaded while the browser already gets the first screen."""

    def __init__(self, folder: Path, file: Path | None) -> None:
        self.folder, self.file, self._lock = folder, file, threading.Lock()
        self._parts: tuple[Store, Callable[..., None]] | None = None

    def load(self) -> tuple[Store, Callable[..., None]]:
        """Return the store of tabs and the server function; the first call imports what they need."""
        with self._lock:
            if self._parts is None:
                with uncollected(), quick_turns():
                    # Not at the top: these imports take half a second, and the page is sent before.
                    from postrand.app.first import make_server
                    from postrand.app.start import Start
                    from postrand.app.tabs import Store
                    from postrand.support.memory import hold_little

                hold_little()
                store = Store(self.folder, Start(self.file))
                self._parts = store, make_server(store)
            return self._parts

    def prepare(self) -> None:
        """Load, and read the file of the command line, before a browser asks for either."""
        self.load()[0].start.prepare()

    def stop(self) -> None:
        """Ask every unfinished run to stop."""
        for tab in self._parts[0].tabs.values() if self._parts else ():
            tab.halt()

    def unsaved(self) -> int:
        """Return the number of releases that would be lost with the workbench."""
        return self._parts[0].unsaved if self._parts else 0

    def serve(self, input: Any, output: Any, session: Any) -> None:
        """Serve one session."""
        self.load()[1](input, output, session)


def application(late: Late) -> tuple[Starlette, str]:
    """Return the web application, and the text of its page."""

    async def file(request: Request) -> Response:
        # The address has the folders of the disk, so that links between the pages work; the last part names the file.
        store, number, place = late.load()[0], request.path_params["number"], request.path_params["place"]
        one = store.release(number)
        path = None if one is None else await asyncio.to_thread(one.file, place)
        if path is None:
            return PlainTextResponse("There is no such file: the release was removed, or not made yet.", 404)
        kept = "attachment" if path.suffix == ".zip" else "inline"
        if path.suffix == ".zip":
            await store.taken(number)
        kind = _SHOWN[path.suffix]
        headers = {POLICY.decode(): file_policy(path.read_text("utf-8"))} if path.suffix == ".html" else None
        return FileResponse(path, headers=headers, media_type=kind, filename=path.name, content_disposition_type=kept)

    async def part(request: Request) -> Response:
        found = served(request.path_params["name"])
        return PlainTextResponse("Not found", 404) if found is None else Response(found[0], media_type=found[1])

    async def icon(request: Request) -> Response:
        return Response(status_code=204)  # browsers ask for it before they read the page's own icon

    shiny = App(page(), late.serve)
    routes = [
        Route(ICON, icon),
        Route("/assets/{name}", part),
        Route("/files/{number:int}/{place:path}", file),
        Mount("/", app=shiny),
    ]
    assert isinstance(shiny.ui, dict)  # a page that is the same for every request
    return Starlette(routes=routes), shiny.ui["html"]


class Server(uvicorn.Server):
    """A server whose first Ctrl-C only warns, where releases would be lost that are saved nowhere else."""

    def __init__(self, config: uvicorn.Config, late: Late, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self.late, self.say, self.has_warned = late, say, False

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End, or say once what would be lost."""
        lost = self.late.unsaved()
        if sig == signal.SIGINT and lost and not self.has_warned:
            self.has_warned = True
            what = "1 release is" if lost == 1 else f"{lost} releases are"
            self.say(f"{what} not saved or downloaded, and would be removed. Press Ctrl-C again to end the workbench.")
            return
        super().handle_exit(sig, frame)


def _leave(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def serve(file: Path | None, port: int = 0, *, browser: bool = True, say: Callable[[str], None] = print) -> None:
    """Serve until interrupted; print the address with its token first; remove all working files at the end."""
    for number in SIGNALS:  # by default they end the process at once, and the working files would remain
        signal.signal(number, _leave)
    signal.set_wakeup_fd(-1)  # the watcher of the command line would not wait until the working files are removed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # here Ctrl-C is the normal end, not an interrupted run
    with private_folder() as folder, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, _ALONE, 1)
        listener.bind((HOST, port))
        listener.listen(128)  # from here on a browser waits and is not refused
        port, keys = listener.getsockname()[1], Keys()
        late = Late(folder, None if file is None else file.resolve())
        app, text = application(late)
        guarded = Guard(app, port, keys, page_policy(text, port))
        config = uvicorn.Config(guarded, log_level="warning", ws="auto", access_log=False)
        address = f"http://{HOST}:{port}/"
        say(f"Workbench: {address}{keys.token}/\nOnly this machine can reach it. Stop it with Ctrl-C.")
        threading.Thread(target=late.prepare, daemon=True).start()
        if browser:
            webbrowser.open(f"{address}{keys.once}/")
        try:
            Server(config, late, say).run(sockets=[listener])
        except KeyboardInterrupt:  # the usual way to end it
            pass
        finally:
            late.stop()
