"""The page on completed files: its examples run, and print what it shows as far as draws can be repeated elsewhere."""

import re
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.guides import blocks, run_examples

PAGE = (ROOT / "docs" / "completed.md").read_text("utf-8")
EXAMPLES = [text for kind, text, _ in blocks(PAGE) if kind == "text"]
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


def words_and_numbers(text):
    """The words of a text, and its numbers; warnings are left out, because they depend on the draws."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("Warning:"))
    return NUMBER.sub("#", lines).split(), [float(n) for n in NUMBER.findall(lines)]


def alike(printed, shown):
    """Roughly: degrees of freedom, the numbers above 10, are the ratio of two variances squared, and vary most."""
    return abs(printed - shown) <= 0.12 + 0.6 * abs(shown) or (shown > 10 and shown / 4 < printed < 4 * shown)


def roughly(printed, shown):
    words, numbers = words_and_numbers(printed)
    wanted, known = words_and_numbers(shown)
    return words == wanted and len(numbers) == len(known) and all(map(alike, numbers, known))


@pytest.mark.slow
def test_examples_print_what_the_page_shows():
    """Words exactly; numbers roughly, since the draws depend on the machine's arithmetic and on the sampler."""
    names: dict[str, Any] = {}
    assert run_examples(PAGE, "completed.md", names, roughly) == 3
    (call,) = re.findall(r"`(estimate\.table\([^`]*model=completed\))`", PAGE)
    found = eval(call, names)
    assert ((found.rests_on_model >= 0) & (found.unbiased_error > 0)).all()


def test_what_the_page_says_of_the_first_example_is_in_it():
    """The released coefficient is far from the true one, which the pooled interval contains."""
    released, true, *pooled = EXAMPLES[0].splitlines()
    found = {
        name: float(re.search(r"affair\[T.yes\]': (-?[\d.]+)", line).group(1))
        for name, line in (("released", released), ("true", true))
    }
    row = next(line for line in pooled if line.startswith("affair[T.yes]"))
    estimate, _, low, high, *_ = (float(n) for n in row.split()[1:])
    assert low < found["true"] < high
    assert abs(estimate - found["true"]) < abs(found["released"] - found["true"])
