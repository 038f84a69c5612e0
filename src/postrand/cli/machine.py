"""Options for the resources that a command uses, of the machine or of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from postrand.cli.frame import FOLDER, Result
from postrand.errors import PostrandError, SpecificationError, UsageError, sentence

LOCAL = ("threads", "memory_limit", "scratch")
CLUSTER = (*LOCAL, "master", "conf", "parts")


class _Size(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """A size of memory."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from postrand.engines.resources import size_of

        try:
            return size_of(value) if isinstance(value, str) else value
        except PostrandError as error:
            self.fail(str(error), param, ctx)


_OPTIONS: dict[str, dict[str, Any]] = {
    "threads": {
        "type": click.IntRange(1),
        "metavar": "N",
        "help": "Number of processor cores to use. Default: all.",
    },
    "memory_limit": {
        "type": _Size(),
        "help": "Memory for sorting and counting, for example 4GiB. If more is needed, temporary files are used.",
    },
    "scratch": {"type": FOLDER, "metavar": "DIR", "help": "Existing folder for temporary files."},
    "master": {"metavar": "URL", "help": "Address of the Spark cluster: local[4], spark://host:7077, yarn."},
    "conf": {"multiple": True, "metavar": "NAME=VALUE", "help": "A setting of Spark; can be repeated."},
    "parts": {"type": click.IntRange(1), "metavar": "N", "help": "Number of files of the released data, with Spark."},
}


def may_use(*names: str, passed: bool = False) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Add the options with these names to a command, which gets them as ``resources`` if they are ``passed``."""

    def decorated(function: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(function)
        def wrapped(**arguments: Any) -> Result:
            given = {name: arguments.pop(name) for name in names}
            from postrand.support.memory import share_heap

            share_heap()
            from postrand.engines.resources import Resources, applied

            settings = tuple(map(_setting, given.pop("conf", ())))
            chosen = {name: value for name, value in given.items() if value is not None}
            try:
                resources = Resources(**chosen, conf=settings)
            except SpecificationError as error:
                raise UsageError(error.problems) from None
            if passed:
                arguments["resources"] = resources
            with applied(resources):
                return function(**arguments)

        for name in reversed(names):
            wrapped = click.option(f"--{name.replace('_', '-')}", **_OPTIONS[name])(wrapped)
        return wrapped

    return decorated


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals):
        raise UsageError(sentence("this is not a setting", where="--conf", wanted="NAME=VALUE"))
    return name.strip(), value
