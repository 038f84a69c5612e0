"""Serve the workbench on the loopback address, protected by a token in the address."""

from __future__ import annotations

import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from shiny import App
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from postrand.app.page import page
from postrand.app.private_folder import private_folder

if TYPE_CHECKING:
    from postrand.app.tabs import Store

HOST = "127.0.0.1"
Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
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
                # Not at the top: these imports take a second, and the page is sent before.
                from postrand.app.server import make_server
                from postrand.app.tabs import Start, Store

                store = Store(self.folder, Start(self.file))
                self._parts = store, make_server(store)
            return self._parts

    def stop(self) -> None:
        """Ask every unfinished run to stop."""
        for tab in self._parts[0].tabs.values() if self._parts else ():
            tab.stop()

    def unsaved(self) -> int:
        """Return the number of releases that would be lost with the workbench."""
        return self._parts[0].unsaved if self._parts else 0

    def serve(self, input: Any, output: Any, session: Any) -> None:
        """Serve one session."""
        self.load()[1](input, output, session)


def application(late: Late, token: str) -> Starlette:
    """Return the web application: everything below ``/token/``, nothing elsewhere."""

    async def file(request: Request) -> Response:
        store, number, name = late.load()[0], request.path_params["number"], request.path_params["name"]
        one = store.release(number)
        path = None if one is None else one.file(name)
        if path is None:
            return PlainTextResponse("There is no such file: the release was removed, or not made yet.", 404)
        kept = "attachment" if path.suffix == ".zip" else "inline"
        if path.suffix == ".zip":
            await store.taken(number)
        kind = _SHOWN[path.suffix]
        return FileResponse(path, media_type=kind, filename=name, content_disposition_type=kept)

    async def icon(request: Request) -> Response:
        return Response(status_code=204)  # browsers ask for it before they read the page's own icon

    shiny = App(page(), late.serve)
    return Starlette(
        routes=[
            Route("/favicon.ico", icon),
            Route(f"/{token}/files/{{number:int}}/{{name}}", file),
            Mount(f"/{token}", app=shiny),
        ]
    )


class Guard:
    """Refuse requests that do not come from a page of this server, and forbid browsers to ask other hosts."""

    def __init__(self, app: Any, port: int) -> None:
        self.app, self.hosts = app, {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        sources = "'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
        connect = " ".join(f"{scheme}://{host.decode()}" for host in sorted(self.hosts) for scheme in ("ws", "http"))
        self.policy = f"default-src {sources}; connect-src 'self' {connect}; frame-ancestors 'none'; base-uri 'none'"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if host and origin are this server."""
        if scope["type"] in ("http", "websocket") and not self._is_ours(scope):
            if scope["type"] == "http":
                await PlainTextResponse("Not found", 404)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {b"content-security-policy": self.policy, b"referrer-policy": "no-referrer"}
                own |= {b"cache-control": "no-store", b"x-content-type-options": "nosniff"}
                kept = [(k, v) for k, v in message["headers"] if k.lower() not in own]
                message = {**message, "headers": [*kept, *((k, v.encode()) for k, v in own.items())]}
            await send(message)

        await self.app(scope, receive, guarded)

    def _is_ours(self, scope: Scope) -> bool:
        headers = {k.lower(): v for k, v in scope["headers"]}
        origin = headers.get(b"origin")
        return headers.get(b"host") in self.hosts and (origin is None or origin.partition(b"://")[2] in self.hosts)


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
    for name in ("SIGTERM", "SIGHUP"):  # by default they end the process at once, and the working files would remain
        signal.signal(getattr(signal, name), _leave)
    signal.set_wakeup_fd(-1)  # the watcher of the command line would not wait until the working files are removed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # here Ctrl-C is the normal end, not an interrupted run
    with private_folder() as folder, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)  # from here on a browser waits and is not refused
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        late = Late(folder, None if file is None else file.resolve())
        config = uvicorn.Config(Guard(application(late, token), port), log_level="warning", ws="auto", access_log=False)
        address = f"http://{HOST}:{port}/{token}/"
        say(f"Workbench: {address}\nOnly this machine can reach it. Stop it with Ctrl-C.")
        threading.Thread(target=late.load, daemon=True).start()
        if browser:
            webbrowser.open(address)
        try:
            Server(config, late, say).run(sockets=[listener])
        except KeyboardInterrupt:  # the usual way to end it
            pass
        finally:
            late.stop()
