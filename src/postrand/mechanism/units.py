"""Units of protection: which records are one person's or one household's, and how many they can be.

A block of a unit describes one fact about it, such as the region of a household. Its word is that of the unit and not
of the record, so all records of the unit show the same released value, and the fact is counted once. The bounds are
public: they are decided before the file is seen, and a file beyond them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.support import wordings
from postrand.support.inputs import is_whole
from postrand.support.unit_wordings import of_persons
from postrand.support.warned import warn

Unit = Literal["record", "person", "household"]
"""What a block describes, and so what its draws are keyed on."""
UNITS: tuple[str, ...] = get_args(Unit)
MAX_RECORDS = 10_000
"""The most records of one unit that can be planned."""


class SharedDrawsWarning(UserWarning):
    """Records of one unit share a draw, but an estimate or a risk takes all draws as independent."""


@dataclass(frozen=True, slots=True)
class Units:
    """Say which columns tell the records of one household, or of one person, and how many records those can have.

    ``household`` and ``person`` are names of columns, empty where the unit is not used. ``largest_household`` is the
    largest number of records of one household, ``most_records`` that of one person: public bounds. Both can name the
    same column: a person with several records then is the household, with the same bound.

    Raises
    ------
    SpecificationError
        If no column is named, one column has two bounds, or a named unit has no bound.

    Examples
    --------
    >>> Units(household="hid", largest_household=12).bounds
    {'household': 12}
    """

    household: str = ""
    largest_household: int = 0
    person: str = ""
    most_records: int = 0

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _problems(self))

    @property
    def are_persons(self) -> bool:
        """Whether the numbers of households are those of persons with several records."""
        return bool(self.person) and self.person == self.household

    @property
    def columns(self) -> dict[str, str]:
        """The column of each unit that is used."""
        held = {"person": self.person, "household": self.household}
        return {unit: name for unit, name in held.items() if name}

    @property
    def bounds(self) -> dict[str, int]:
        """The largest number of records of each unit that is used."""
        return {unit: self.most_records if unit == "person" else self.largest_household for unit in self.columns}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    @classmethod
    def from_dict(cls, data: Any) -> Units | None:
        """Return the units of plain data, None where there are none; raises SpecificationError if malformed."""
        if data in (None, "", [], {}):  # how files of earlier versions could say that there are none
            return None
        if not isinstance(data, Mapping) or not set(data) <= set(cls.__slots__):
            raise SpecificationError(sentence("the units of a mechanism are malformed", got=shown(data, repr)))
        found = cls(**data)
        if found.to_dict() != dict(data):
            raise SpecificationError(sentence("the units of a mechanism are not in their only valid form"))
        return found


def words_of(units: Units | None) -> Callable[[str], str]:
    """Return what makes words on households those on persons, where the households are persons.

    >>> words_of(Units("pid", 3, "pid", 3))("a household and its members"), words_of(None)("a household")
    ('a person and its records', 'a household')
    """
    return of_persons if units is not None and units.are_persons else str


def _problems(units: Units) -> Iterable[str]:
    names = (units.household, units.person)
    if not all(isinstance(name, str) for name in names) or not any(names):
        got, fix = shown(names, repr), 'set household = "hid", the column of household numbers'
        yield sentence("units name no column", got=got, fix=fix)
        return
    if units.are_persons and units.largest_household != units.most_records:
        what, fix = (
            f"{shown(units.person, repr)} numbers persons and households",
            "set most_records = largest_household",
        )
        yield sentence(f"{what}, with two largest numbers of records", fix=fix)
    pairs = (("largest_household", units.household, 1), ("most_records", units.person, 1))
    for option, column, least in pairs:
        bound = getattr(units, option)
        if column and not (is_whole(bound, least) and bound <= MAX_RECORDS):
            wanted, fix = f"a whole number in 1..{MAX_RECORDS:,}", f"set {option}, a bound that does not need the file"
            yield sentence(f"{option!r} is not valid", got=shown(bound, repr), wanted=wanted, fix=fix)
        elif not column and bound:
            yield sentence(f"{option!r} is given without the column of its unit", got=shown(bound, repr))


def unit_problems(units: Units | None, blocks: Sequence[Any], roles: Mapping[str, str]) -> Iterable[str]:
    """Yield why blocks do not fit the units of a mechanism; ``roles`` are those of the codebook's variables."""
    columns = {} if units is None else units.columns
    for block in blocks:
        if block.unit != "record" and block.unit not in columns:
            fix = f'give the mechanism units: Units({block.unit}="column", ...)'
            yield sentence(f"no column tells the {block.unit}s of a block", where=f"block {block.name!r}", fix=fix)
        for name in set(columns.values()).intersection(block.variables):
            yield sentence(f"{name!r} tells which records belong together, and a block uses it", where=block.name)
    name = columns.get("household", "")
    if name in roles and roles[name] != "household":
        got = f"role {roles[name]!r}"
        yield sentence(f"{name!r} has no household numbers", got=got, wanted="role 'household'")


def warn_shared(mechanism: Any, variables: Iterable[str], stacklevel: int = 3) -> None:
    """Warn (SharedDrawsWarning) where ``variables`` hold values that records of one unit share.

    Records that count for a split of households are of different ones, and share nothing.
    """
    asked = set(variables)
    if mechanism.split is not None and mechanism.split.of_members and not asked.isdisjoint(mechanism.partly):
        return
    for unit, names in mechanism.shared.items():
        if held := [name for name in names if name in asked]:
            text = wordings.limit({"code": f"shared_{unit}", "variables": held})
            warn(text, SharedDrawsWarning, stacklevel=stacklevel)
