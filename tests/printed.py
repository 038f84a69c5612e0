"""What is printed: the pages of a PDF and the words on each, read as Chromium writes them."""

import re
import zlib
from pathlib import Path

from playwright.sync_api import Browser

_OBJECT = re.compile(rb"(?<!\d)(\d+) 0 obj\b(.*?)\bendobj", re.DOTALL)


def printed(browser: Browser, page: Path, paper: str = "") -> list[str]:
    """Return the words of each page that a file is printed on: on paper of this size, else of the one it asks for."""
    opened = browser.new_page(bypass_csp=True)  # the page lets in no style but its own
    opened.goto(page.as_uri())
    if paper:
        opened.add_style_tag(content=f"@page {{ size: {paper} }}")
    found = words(opened.pdf(prefer_css_page_size=True))
    opened.close()
    return found


def words(pdf: bytes) -> list[str]:
    """Return the text of each page without spaces: a PDF has glyphs, and each font says which letters they are."""
    objects = {int(number): body for number, body in _OBJECT.findall(pdf)}
    pages = [body for body in objects.values() if re.search(rb"/Type\s*/Page\b", body)]
    return [_page(objects, body) for body in pages]


def _page(objects: dict[int, bytes], page: bytes) -> str:
    fonts = {name: _letters(objects, int(number)) for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", page)}
    contents = re.search(rb"/Contents (\d+) 0 R", page)
    assert contents is not None
    text, letters = [], dict[int, str]()
    for name, run in re.findall(rb"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>", _stream(objects[int(contents[1])])):
        if name:
            letters = fonts[name]
        else:
            text += [letters.get(int(run[i : i + 4], 16), "") for i in range(0, len(run), 4)]
    return "".join(text).replace(" ", "").replace("\xa0", "")


def _letters(objects: dict[int, bytes], font: int) -> dict[int, str]:
    named = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    if named is None:
        return {}
    table, found = _stream(objects[int(named[1])]), dict[int, str]()
    for part in re.findall(rb"beginbfchar(.*?)endbfchar", table, re.DOTALL):
        found |= {int(code, 16): _text(text) for code, text in re.findall(rb"<(\w+)>\s*<(\w+)>", part)}
    for part in re.findall(rb"beginbfrange(.*?)endbfrange", table, re.DOTALL):
        for first, last, text in re.findall(rb"<(\w+)>\s*<(\w+)>\s*<(\w+)>", part):
            start = int(first, 16)
            found |= {code: chr(int(text, 16) + code - start) for code in range(start, int(last, 16) + 1)}
    return found


def _text(code: bytes) -> str:
    return bytes.fromhex(code.decode()).decode("utf-16-be")


def _stream(body: bytes) -> bytes:
    data = body[body.index(b"stream") + len(b"stream") :].lstrip(b"\r\n")
    return zlib.decompressobj().decompress(data)
