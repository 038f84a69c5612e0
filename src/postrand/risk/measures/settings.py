"""Options of measures as a person types them: ``suda.max_size=3``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from postrand.errors import UsageError, raise_all, sentence


def settings_of(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the options of each measure from ``NAME.OPTION=VALUE``: a number, true or false, or a text.

    Raises
    ------
    UsageError
        With every text that is not of this form, or gives an option twice.

    Examples
    --------
    >>> settings_of(["suda.max_size=3", "groups.by=region"])
    {'suda': {'max_size': 3}, 'groups': {'by': 'region'}}
    """
    found: dict[str, dict[str, Any]] = {}
    problems = []
    for text in texts:
        where, equals, value = text.partition("=")
        measure, dot, option = (part.strip() for part in where.partition("."))
        option = option.replace("-", "_")
        if not (equals and dot and measure and option and value.strip()):
            problems.append(
                sentence("an option is not of the form that is wanted", got=repr(text), wanted="NAME.OPTION=VALUE")
            )
        elif option in found.get(measure, {}):
            problems.append(sentence(f"the option {measure}.{option} is given twice"))
        else:
            found.setdefault(measure, {})[option] = _value(value.strip())
    raise_all(UsageError, problems)
    return found


def _value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text
