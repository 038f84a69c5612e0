"""The door of the workbench: its host, its origin, its token for a cookie, and what its pages may load."""

import asyncio
import re
from pathlib import Path
from typing import Any

from postrand.app import launch
from postrand.app.door import HOST, Guard, Keys, file_policy, page_policy
from postrand.app.page import SCRIPTS, page, served

PORT = 8765
HERE = {"host": f"{HOST}:{PORT}"}


def knock(headers: dict[str, str], path: str = "/", kind: str = "http", keys: Keys | None = None) -> list[Any]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"DENY")]})
        await send({"type": "http.response.body", "body": b"inside"})

    said: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    sent = [(k.encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": kind, "headers": sent, "method": "GET", "path": path}
    asyncio.run(Guard(app, PORT, keys or Keys(), "default-src 'none'")(scope, receive, send))
    return said


def told(said: list[Any]) -> dict[str, str]:
    return {k.decode().lower(): v.decode() for k, v in said[0]["headers"]}


def test_the_token_buys_a_cookie_for_this_server_and_an_address_without_it() -> None:
    keys = Keys()
    welcome = knock(HERE, f"/{keys.token}/", keys=keys)
    assert (welcome[0]["status"], told(welcome)["location"]) == (303, "/")
    cookie = told(welcome)["set-cookie"]
    for part in (f"postrand-{PORT}={keys.secret};", "HttpOnly", "Path=/", "SameSite=strict"):
        assert part in cookie
    assert "Domain" not in cookie
    assert keys.token not in cookie
    again = knock({**HERE, "sec-fetch-site": "cross-site"}, f"/{keys.token}/", keys=keys)  # from a page of another site
    assert again[0]["status"] == 200
    assert told(again)["set-cookie"] == cookie
    assert b"url=/'" in again[1]["body"]
    other = {"cookie": f"a=b; postrand-{PORT}={keys.secret}"}
    for kind in ("http", "websocket"):
        inside = knock({**HERE, **other}, kind=kind, keys=keys)
        assert inside[0]["status"] == 200
    headers = told(inside)
    assert headers["content-security-policy"] == "default-src 'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert knock({"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}", **other}, keys=keys)[1:]


def test_nobody_else_gets_in() -> None:
    keys = Keys()
    right = {"cookie": f"postrand-{PORT}={keys.secret}"}
    wrong: list[tuple[dict[str, str], str]] = [
        ({**HERE}, "/"),
        ({**HERE, "cookie": f"postrand-{PORT}={keys.token}"}, "/"),
        ({**HERE, "cookie": f"postrand-{PORT + 1}={keys.secret}"}, "/"),
        ({**HERE, "cookie": "ü"}, "/"),
        ({**HERE}, f"/{'A' * 32}/"),
        ({**HERE}, f"/{keys.token}"),
        ({**right}, "/"),
        ({**right, "host": f"evil.example:{PORT}"}, "/"),
        ({**right, **HERE, "origin": "http://evil.example"}, "/"),
        ({"host": f"evil.example:{PORT}"}, f"/{keys.token}/"),
    ]
    for headers, path in wrong:
        assert knock(headers, path, keys=keys)[0]["status"] == 404
        assert knock(headers, path, "websocket", keys) == [{"type": "websocket.close", "code": 1008}]


def test_the_address_that_the_command_opens_works_once() -> None:
    keys = Keys()
    assert len({keys.token, keys.once, keys.secret}) == 3
    assert [knock(HERE, f"/{keys.once}/", keys=keys)[0]["status"] for _ in range(2)] == [303, 404]
    assert [knock(HERE, f"/{keys.token}/", keys=keys)[0]["status"] for _ in range(2)] == [303, 303]


def test_no_page_of_the_workbench_needs_anything_unsafe(tmp_path: Path) -> None:
    _, text = launch.application(launch.Late(tmp_path, None))
    policy = page_policy(text, PORT)
    assert "unsafe" not in policy
    assert "*" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy.count("'sha256-") == len(scripts) == 1  # the one of the framework
    assert not re.findall(r"<[^>]*\s(?:style|on\w+)=", str(page()))
    for name in ("app.css", *SCRIPTS):
        found = served(name)
        assert found is not None
        assert f"assets/{name}" in text
    assert served("../page.py") is None
    report = "<style>\na{}</style><script>x</script>"
    assert file_policy(report).startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in file_policy(report)


def test_no_part_of_the_workbench_is_styled_or_run_in_its_attributes() -> None:
    """The policy forbids it, so that the browser would leave it out."""
    folder = Path(launch.__file__).parent
    for path in folder.glob("*.py"):
        assert not re.search(
            r"\bstyle=|\bon(click|change|input)=|tags\.style|tags\.script\(HTML", path.read_text("utf-8")
        ), path
