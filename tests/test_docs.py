"""The README's example runs and prints what the README says."""

import contextlib
import io
import re

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_example_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    printed = re.search(r"prints\n\n```\n(.*?)```", README, re.DOTALL)
    assert code is not None
    assert printed is not None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code.group(1), "README.md", "exec"), {})
    assert out.getvalue() == printed.group(1)


def test_every_command_of_the_readme_exists():
    from postrand.cli import main

    commands = set(re.findall(r"^postrand ([a-z]+) .* #", README, re.MULTILINE))
    assert commands
    assert commands <= set(main.commands)


def test_links_lead_to_files():
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
