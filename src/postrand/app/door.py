"""Who gets in: pages of this server, in a browser that has shown the token; and what those pages may load."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

HOST = "127.0.0.1"
POLICY, COOKIE = b"content-security-policy", b"cookie"
ICON = "/favicon.ico"
_NEVER = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]


def _new() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Keys:
    """Hold what opens the workbench: the ``token`` of the printed address, and the ``secret`` of the cookie it buys.

    ``once`` is the token of the address that the command opens itself: other users of the machine can read the words of
    a command, so it works for one browser only. ``used`` are such tokens that have been shown.
    """

    token: str = field(default_factory=_new)
    once: str = field(default_factory=_new)
    secret: str = field(default_factory=_new)
    used: set[str] = field(default_factory=set)

    def admits(self, path: str) -> bool:
        """Whether a path is a token that works; the one of ``once`` does not work again."""
        if _same(path, f"/{self.token}/"):
            return True
        if not _same(path, f"/{self.once}/") or self.once in self.used:
            return False
        self.used.add(self.once)
        return True


class Guard:
    """Refuse requests that do not come from a page of this server in a browser that has shown the token.

    The first request shows the token. Its answer is a cookie and an address without the token: so the token stays in
    no history, bookmark or screenshot. The cookie is for this server alone, and scripts cannot read it.
    """

    def __init__(self, app: Any, port: int, keys: Keys, policy: str) -> None:
        self.app, self.keys, self.policy = app, keys, policy
        self.hosts = {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        self.cookie = f"postrand-{port}={keys.secret}"  # cookies do not tell ports apart, so the name does

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if host, origin and cookie are those of this server; exchange the token for the cookie."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {k.lower(): v for k, v in scope["headers"]}
        answer: Any = self.app
        if not self._is_ours(headers):
            answer = _refusal(scope)
        elif scope["type"] == "http" and self.keys.admits(scope["path"]):
            answer = self._welcome(headers)
        elif not self._has_cookie(headers) and scope["path"] != ICON:
            answer = _refusal(scope)
        await answer(scope, receive, self._guarded(send))

    def _guarded(self, send: Send) -> Send:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {b"referrer-policy": "no-referrer", b"cache-control": "no-store"}
                own |= {b"x-content-type-options": "nosniff", b"cross-origin-opener-policy": "same-origin"}
                if not any(k.lower() == POLICY for k, _ in message["headers"]):
                    own[POLICY] = self.policy
                kept = [(k, v) for k, v in message["headers"] if k.lower() not in own]
                message = {**message, "headers": [*kept, *((k, v.encode()) for k, v in own.items())]}
            await send(message)

        return guarded

    def _is_ours(self, headers: dict[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        return headers.get(b"host") in self.hosts and (origin is None or origin.partition(b"://")[2] in self.hosts)

    def _has_cookie(self, headers: dict[bytes, bytes]) -> bool:
        return any(_same(part.strip().decode("latin-1"), self.cookie) for part in headers.get(COOKIE, b"").split(b";"))

    def _welcome(self, headers: dict[bytes, bytes]) -> Response:
        """Answer the token with the cookie, and lead to the address without it."""
        answer: Response = RedirectResponse("/", 303)
        if headers.get(b"sec-fetch-site") == b"cross-site":
            # A link in a page of another site, such as a terminal in a browser, was clicked. The cookie would not be
            # sent where that leads, but it is sent where a page of this server leads.
            head = "<title>Workbench</title><meta http-equiv='refresh' content='0; url=/'>"
            answer = HTMLResponse(
                f"<!DOCTYPE html><html lang='en'>{head}<p><a href='/'>Open the workbench</a></p></html>"
            )
        name, _, value = self.cookie.partition("=")
        answer.set_cookie(name, value, path="/", httponly=True, samesite="strict")
        return answer


def page_policy(page: str, port: int) -> str:
    """Return the content security policy of the workbench: its own files, and the inline scripts of ``page`` as it is.

    No source is ``unsafe-inline`` or ``unsafe-eval``. The framework writes one inline script into the page; the policy
    names it by its digest.
    """
    connect = " ".join(f"ws://{name}:{port}" for name in (HOST, "localhost"))
    scripts = " ".join(["'self'", *_digests(re.findall(r"<script>(.*?)</script>", page, re.DOTALL))])
    loads = f"script-src {scripts}; style-src 'self'; img-src 'self' data:; font-src 'self'"
    return f"default-src 'none'; {loads}; connect-src 'self' {connect}; {_NEVER}"


def file_policy(page: str) -> str:
    """Return the policy of a report: no script, no request, and of styles only the sheets in the file itself."""
    sheets = " ".join(_digests(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))) or "'none'"
    return f"default-src 'none'; style-src {sheets}; {_NEVER}"


def _digests(texts: Iterable[str]) -> list[str]:
    found = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return [f"'sha256-{digest}'" for digest in found]


def _same(one: str, other: str) -> bool:
    """Compare in a time that does not tell how much is the same."""
    return secrets.compare_digest(one.encode(), other.encode())


def _refusal(scope: Scope) -> Any:
    if scope["type"] == "http":
        return PlainTextResponse("Not found", 404)

    async def close(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close", "code": 1008})

    return close
