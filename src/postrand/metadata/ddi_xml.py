"""DDI-Codebook 2.5 (DDI Alliance): variables, categories and labels as XML, out and in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.parsers import expat

import pyarrow as pa

from postrand import formats
from postrand.certification.certificate import Certificate
from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import arrow_type, value_type
from postrand.codebook.not_released import NOT_RELEASED, released_variable
from postrand.codebook.variable import Scalar
from postrand.errors import SpecificationError, sentence
from postrand.mechanism import Mechanism
from postrand.mechanism.one_member import kept_rules
from postrand.mechanism.units import words_of
from postrand.metadata.description import Described, Description, packed
from postrand.support.inputs import read_bytes

NAMESPACE = "ddi:codebook:2_5"
DEEPEST = 200
"""Elements in elements: a document has some ten, and time grows with the square of their number."""


def ddi(
    description: Description,
    data: str | Path,
    mechanism: Mechanism,
    certificate: Certificate,
    records: int,
    completed: Mapping[str, Any] | None = None,
) -> str:
    """Return the DDI-Codebook 2.5 document of a release; it holds no count but the number of released records.

    ``completed`` is what ``completed.json`` says, where the release has completed files.
    """
    data_name = Path(data).name
    root = ET.Element("codeBook", {"xmlns": NAMESPACE, "version": "2.5"})
    done = processing(mechanism, completed)
    _study(ET.SubElement(root, "stdyDscr"), description, data_name, done, certificate)
    text = ET.SubElement(ET.SubElement(root, "fileDscr", {"ID": "F1"}), "fileTxt")
    _put(text, "fileName", data_name)
    size = ET.SubElement(text, "dimensns")
    book = mechanism.require_codebook()
    _put(size, "caseQnty", str(records))
    _put(size, "varQnty", str(len(book.variables)))
    described = ET.SubElement(root, "dataDscr")
    for number, variable in enumerate(book.variables, 1):
        _variable(ET.SubElement(described, "var", _attributes(variable, number, book)), variable, mechanism, data)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def read_ddi(path: str | Path) -> Described:
    """Return what a DDI-Codebook document (1.2 to 2.5) says of its variables: labels, value labels, missing codes.

    Raises
    ------
    SpecificationError
        If the file cannot be read, is not well-formed XML, declares a document type, or describes no variable.
    """
    path = Path(path)
    try:
        data = read_bytes(path)
        _refuse_doctype(data, path.name)
        root = ET.fromstring(data)
    except OSError as error:
        raise SpecificationError(sentence("the file cannot be read", where=str(path), got=error.strerror)) from None
    except (ET.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise SpecificationError(sentence("not well-formed XML", where=path.name, got=str(error))) from None
    found = {name: _described(var) for var in _all(root, "var") if (name := (var.get("name") or "").strip())}
    if not found:
        fix = "export the codebook as DDI-Codebook (DDI 2), not DDI-Lifecycle"
        raise SpecificationError(sentence("the document does not describe any variable", where=path.name, fix=fix))
    return found


def _study(
    study: ET.Element, description: Description, data_name: str, done: Iterable[str], certificate: Certificate
) -> None:
    citation = ET.SubElement(study, "citation")
    _put(ET.SubElement(citation, "titlStmt"), "titl", description.title or data_name)
    if description.creator:
        _put(ET.SubElement(citation, "rspStmt"), "AuthEnty", description.creator)
    if description.publisher:
        _put(ET.SubElement(citation, "prodStmt"), "producer", description.publisher)
    if description.date_published:
        ET.SubElement(ET.SubElement(citation, "distStmt"), "distDate", {"date": description.date_published})
    if description.version:
        _put(ET.SubElement(citation, "verStmt"), "version", description.version)
    if description.citation:
        _put(citation, "biblCit", description.citation)
    if description.description:
        _put(ET.SubElement(study, "stdyInfo"), "abstract", description.description)
    method = ET.SubElement(study, "method")
    for text in (*done, *certificate.sentences):
        _put(method, "notes", text, {"type": "disclosure control"})
    use = ET.SubElement(ET.SubElement(study, "dataAccs"), "useStmt")
    if description.license:
        _put(use, "conditions", description.license)
    _put(use, "disclaimer", " ".join(("Not covered by the privacy guarantee:", *certificate.not_covered)))


PROCESSING = (
    "Post-randomisation (PRAM): the values of the perturbed variables were drawn anew at random, with the transition "
    "matrices in mechanism.json (rows true, columns released). Correct for them in every analysis."
)
NOT_SHOWN = (
    f"Each record shows only some of its variables, drawn at random without looking at the record. {NOT_RELEASED} says "
    "that it does not show the variable: this is not a missing value, and tells nothing of the true one."
)

ONE_MEMBER = (
    "One random member of each household shows some of the variables of the split, drawn without looking at records. "
    f"{NOT_RELEASED} says that a record does not show the variable: this is not a missing value, and tells nothing of "
    "the true one. In tables of these variables a record counts as often as its household has records."
)

COPIES = (
    "{file} has {copies} copies of the records with plausible true values, drawn from this release alone, for analyses "
    "with ordinary software: analyse each copy by itself and combine the results by Rubin's rules; README.txt says how."
)


def processing(mechanism: Mechanism, completed: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return in sentences what was done to the records, and which file has completed copies of them."""
    copies = [] if completed is None else [COPIES.format(file=completed["file"], copies=completed["copies"])]
    return (PROCESSING, *not_shown(mechanism), *copies)


def not_shown(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what a value that is not released means, nothing without a split."""
    if mechanism.split is None:
        return ()
    return (words_of(mechanism.units)(ONE_MEMBER) if mechanism.split.of_members else NOT_SHOWN,)


def _attributes(variable: Variable, number: int, book: Codebook) -> dict[str, str]:
    weight = {"wgt": "wgt"} if variable.role == "weight" else {}
    weights = book.with_role("weight")
    uses = {"wgt-var": f"V{book.names.index(weights[0].name) + 1}"} if weights and not weight else {}
    kind = "discrete" if variable.is_categorical else "contin"
    return {"ID": f"V{number}", "name": _clean(variable.name), "files": "F1", **weight, **uses, "intrvl": kind}


def _variable(var: ET.Element, variable: Variable, mechanism: Mechanism, data: str | Path) -> None:
    """Add the parts of one variable, in the order of the schema."""
    if variable.label:
        _put(var, "labl", variable.label)
    held = held_values(variable, mechanism, data)
    missing = set(variable.missing_codes)
    own = ["" if _text(v) == _text(c) else _text(c) for v, c in zip(held, variable.categories, strict=False)]
    for value, category, label in zip(held, variable.categories, variable.labels or own, strict=False):
        entry = ET.SubElement(var, "catgry", {"missing": "Y"} if category in missing else {})
        _put(entry, "catValu", _text(value))
        if label:
            _put(entry, "labl", label)
    if variable.name in mechanism.partly:
        entry = ET.SubElement(var, "catgry", {"missing": "Y", "missType": "not released"})
        _put(entry, "catValu", _text(held[-1]))
        _put(entry, "labl", NOT_RELEASED)
    if told := list(_done_to(variable, mechanism)):
        derivation = ET.SubElement(var, "derivation")
        for text in told:
            _put(derivation, "drvdesc", text)
    of = value_type(arrow_type(variable.type))
    number = pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of)
    if variable.name in mechanism.partly:
        number = not isinstance(held[0], str)
    ET.SubElement(var, "varFormat", {"type": "numeric" if number else "character"})


def _done_to(variable: Variable, mechanism: Mechanism) -> Iterable[str]:
    """Yield what was done to a variable, in the order in which it was done."""
    recode = mechanism.require_codebook().recode_of(variable.name)
    if recode is not None:
        yield recode.in_words()
    if variable.name in mechanism.variables:
        together = () if variable.name in mechanism.partly else mechanism[variable.name].variables
        joint = f", jointly with {', '.join(n for n in together if n != variable.name)}"
        said = "Perturbed by post-randomisation" + (joint if len(together) > 1 else "")
        yield f"{said}; see mechanism.json."
        rules = kept_rules(mechanism.blocks, mechanism.require_codebook())
        yield from [rules[variable.name]] if variable.name in rules else []
    for column in mechanism.numerical:
        if column.variable == variable.name:
            yield f"{column.done}; see mechanism.json."


def held_values(variable: Variable, mechanism: Mechanism, data: str | Path) -> tuple[Scalar, ...]:
    """Return what the data hold for each category; of a variable of a split, last for what is not released."""
    if variable.name not in mechanism.partly:
        return variable.categories
    return formats.values_of(data, released_variable(variable))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _put(parent: ET.Element, tag: str, text: str, attributes: dict[str, str] | None = None) -> None:
    ET.SubElement(parent, tag, attributes or {}).text = _clean(text)


def _clean(text: str) -> str:
    """Return the text without the control characters that XML has no way to write."""
    return "".join(c if c in "\t\n" or (c >= " " and c not in "\ufffe\uffff") else "�" for c in text)


def _refuse_doctype(data: bytes, where: str) -> None:
    """Refuse a document type, whose entities can grow without limit or read other files, and elements in elements."""

    def refuse(*_: Any) -> None:
        raise SpecificationError(sentence("the XML declares a document type", where=where, fix="remove <!DOCTYPE ...>"))

    open_now = 0

    def begin(*_: Any) -> None:
        nonlocal open_now
        open_now += 1
        if open_now > DEEPEST:
            raise SpecificationError(sentence("the XML is nested too deeply", where=where, wanted=f"<= {DEEPEST}"))

    def end(*_: Any) -> None:
        nonlocal open_now
        open_now -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = refuse, begin, end
    parser.Parse(data, True)


def _all(element: ET.Element, tag: str) -> Iterable[ET.Element]:
    """Yield the descendants of this tag, in whatever namespace the version of DDI has."""
    return (e for e in element.iter() if isinstance(e.tag, str) and e.tag.rpartition("}")[2] == tag)


def _own(element: ET.Element, tag: str) -> str:
    """Return the text of the first child with this tag, or an empty one."""
    found = next((e for e in element if isinstance(e.tag, str) and e.tag.rpartition("}")[2] == tag), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())


def _described(var: ET.Element) -> dict[str, str]:
    labels: dict[str, str] = {}
    missing: list[Any] = []
    for category in _all(var, "catgry"):
        value = _own(category, "catValu")
        if label := _own(category, "labl"):
            labels[value] = label
        if category.get("missing") == "Y":
            missing.append(value)
    for invalid in _all(var, "invalrng"):
        missing += [item.get("VALUE") for item in _all(invalid, "item") if item.get("VALUE")]
        ends = [(r.get("min"), r.get("max")) for r in _all(invalid, "range")]
        missing += [[low, high] for low, high in ends if _is_number(low) and _is_number(high)]
    return packed(_own(var, "labl"), labels, missing)


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and float(text) is not None
    except ValueError:
        return False
