"""An option with one value that is given two values is refused: the last one alone would count, without a word."""

import click
import pytest
from click.testing import CliRunner

from postrand.cli import main


@pytest.mark.parametrize("name", sorted(main.commands))
def test_an_option_with_one_value_that_is_given_two_is_refused(name):
    made = main.commands[name]
    single = [
        one
        for one in made.get_params(click.Context(made))
        if isinstance(one, click.Option) and not (one.multiple or one.is_flag)
    ]
    for option in single:
        words = [part for value in ("first", "second") for part in (option.opts[0], value)]
        run = CliRunner().invoke(main, [name, *words])
        assert run.exit_code == 2
        assert f"given more than once, with different values: {option.opts[-1]}. Next: give each once." in run.output


@pytest.mark.parametrize("pair", [("--keys", "--key"), ("--key", "--keys"), ("--key", "--key")])
def test_an_option_and_its_former_name_are_one(tmp_path, pair):
    (tmp_path / "people.csv").write_text("sex,area\n" + "f,n\nm,s\n" * 50, "utf-8")
    words = ["init", str(tmp_path / "people.csv"), "--out", str(tmp_path / "new"), pair[0], "sex", pair[1], "area"]
    run = CliRunner().invoke(main, words)
    assert (run.exit_code, "with different values: --keys" in run.output) == (2, True)
    run = CliRunner().invoke(main, [*words[:-1], "sex", "--limit", "epsilon <= 3", "--limit", "epsilon <= 4"])
    assert run.exit_code == 0, run.output
