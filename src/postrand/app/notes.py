"""What a draft of the codebook proposes, in the words of the workbench: its buttons, and no syntax of a file."""

from __future__ import annotations

import re

_WORDS = (
    (r"uncomment: missing_codes = \[(.*)\]", r"mark them under Edit: \1"),
    (
        r'write \[\[recodes\]\] with variable = "[^"]*" and missing = \[(.*?)\], and missing = "keep" for the '
        r"variable; if they are true values, missing = \[\] in \[\[recodes\]\]",
        r"choose “numbers, without codes for no answer” under Edit, with \1; if they are true values, an empty box",
    ),
    (r"(merge|group) them with \[\[recodes\]\]", r"\1 them under Edit"),
    (r"put them into bands of years with \[\[recodes\]\]", "put them into bands of years under Edit"),
    (r"set role = '(\w+)'", r"choose the role \1"),
    (r"role = '(\w+)'(?= or '| if| for|[,?.]|$)", r"the role \1"),
    (r"A weight is a number \(type 'int64' or 'double'\) and has no categories", "A weight is a number"),
    (r"'(drop|other|household)'", r"\1"),
    (r"'?record_key'?", "record number"),
)


_OPTIONS = (
    (r"--decimal ([.,]) --thousands ('[^']+'|\S+)", r"decimal \1 and thousands \2 beside the first rows"),
    (r"--decimal ([.,])(?=,| or| instead)", r"decimal \1 beside the first rows"),
    (r" \(--(encoding|separator|decimal|thousands|sheet)\)", " beside the first rows"),
    (r": --(encoding|separator|decimal|thousands|sheet)( [A-Z]+)?", ": choose it beside the first rows"),
    (r"--(encoding|separator|decimal|thousands|sheet)( [A-Z]+)?", r"the \1 beside the first rows"),
    (r", or sheet in \[source\] of the plan", ""),
    (
        r"no weight or sampling fraction is given \(--weight, --sampling-fraction\)",
        "neither the share of the population nor a weight is given on the screen Risk",
    ),
    (r"\(--weight, --sampling-fraction\)", "on the screen Risk"),
    (r"no sampling fraction or weight was given", "neither the share of the population nor a weight was given"),
    (r"give a sampling fraction \(--sampling-fraction 0\.05\)", "give that share on the screen Risk,"),
    (r", with seed \d+, is stated", ", is stated"),
    (r"drawn from the confidential file with this mechanism", "drawn from the confidential file with these chances"),
    (r"need missing='category'", "need missing values that are a category"),
    (r"or a column of sampling weights \(--weight W\)", "or give a column of sampling weights the role weight"),
    (r"\btau([12])\b", r"τ\1"),
    (
        r"name the same ledger in the section \[ledger\] of every plan of these people, or with --ledger FILE",
        "name the same ledger in every plan of these people, as docs/series.md says, and open these plans here",
    ),
    (r", or --method model", ""),
    (
        r"\(\[unit\] epsilon sets it\)(.*)share in \w+_variables",
        r"(a plan can set it)\1share under Households on the screen Design",
    ),
    (r" \(--redo-completed makes them again\)", ""),
    (
        r"run 'postrand check' for the figures, then change the plan",
        "see Policy below, then change the plan",
    ),
    (r"--limit '([^']*)'", r"\1"),
    (
        r"For plans .* a public bound, and --household-variables (.*), which all members share",
        r"To protect whole households, use a plan, and then choose Households on this screen: all members share \1",
    ),
    (
        r"For plans that protect households, add --largest-household N, the most members of one: a public bound",
        "To protect whole households, use a plan, and then choose Households on this screen",
    ),
    (r"let --look (find|merge)", r"let the records choose, which can \1"),
    (r"name the column of household numbers: --household H", "give the column of household numbers the role household"),
    (r"\(--sampling-fraction 0\.05\)", "on the screen Risk"),
    (r"--keys", "the keys"),
    (r"wanted largest_household = (\d+)", r"at most \1 were stated"),
    (r"raise largest_household", "raise Most members of one household on the screen Design"),
    (
        r"set differing = 'most frequent' in \[unit\], or take such variables out of household_variables",
        "or take away its mark under Households on the screen Design",
    ),
    (r"'postrand advise' proposes", "Recommend plans proposes"),
    (r"'postrand (complete|estimate|explain)'", r"postrand \1"),
)


def without_options(text: str) -> str:
    """Return a sentence of the command line with the choices of the screen in place of its options.

    >>> without_options("drawn from this release alone (--redo-completed makes them again)")
    'drawn from this release alone'
    >>> without_options("For a limit that is not met, ask for --limit 'epsilon <= 2'.")
    'For a limit that is not met, ask for epsilon <= 2.'
    """
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return text


def in_words(note: str) -> str:
    """Return a note of a draft in plain words.

    >>> in_words('if these mean no answer, uncomment: missing_codes = [98, 99]')
    'if these mean no answer, mark them under Edit: 98, 99'
    >>> in_words("a key variable without categories is released unperturbed: group its values, or set role = 'drop'")
    'a key variable without categories is released unperturbed: group its values, or choose the role drop'
    """
    for pattern, words in _WORDS:
        note = re.sub(pattern, words, note)
    return note
