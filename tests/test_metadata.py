"""Metadata of a release: well formed, ordered as the schema wants, the same bytes each time, nothing confidential."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from postrand import formats, metadata, release
from postrand.certification.certificate import Facts, certify
from postrand.engines.summary import summarise
from postrand.errors import SpecificationError
from postrand.metadata import Description, ddi, read_ddi
from postrand.plan import infer
from postrand.plan.plan import plan_from_dict
from postrand.release.bundle import file_digest, released_codebook
from tests.release_case import BOOK, CLAIMS, LAW, RECORDS, make

TOLD = Description(
    title="Survey <2024> & more",
    creator="Agency",
    publisher="Press",
    license="CC-BY-4.0",
    citation="Agency (2024)",
    date_published="2024-05-01",
    version="1.0",
    url="survey.example",
    description="What it is",
)
NS = {"d": "ddi:codebook:2_5"}
# Element orders of the published schema, DDI-Codebook 2.5.
ORDERS = {
    "codeBook": ["docDscr", "stdyDscr", "fileDscr", "dataDscr", "otherMat"],
    "stdyDscr": ["citation", "studyAuthorization", "stdyInfo", "studyDevelopment", "method", "dataAccs", "othrStdyMat"],
    "citation": ["titlStmt", "rspStmt", "prodStmt", "distStmt", "serStmt", "verStmt", "biblCit", "holdings", "notes"],
    "useStmt": ["confDec", "specPerm", "restrctn", "contact", "citReq", "deposReq", "conditions", "disclaimer"],
    "fileTxt": ["fileName", "fileCitation", "dataFingerprint", "fileCont", "fileStrc", "dimensns", "fileType"],
    "dimensns": ["caseQnty", "varQnty", "logRecL"],
    "var": ["location", "labl", "imputation", "security", "valrng", "invalrng", "sumStat", "catgryGrp", "catgry",
            "codInstr", "verStatement", "concept", "derivation", "varFormat", "notes"],
    "catgry": ["catValu", "labl", "txt", "catStat"],
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> release.Release:
    folder = tmp_path_factory.mktemp("metadata")
    return make(folder / "release", description=TOLD)


def test_both_files_go_with_the_release_and_verify(made: release.Release) -> None:
    assert {"ddi.xml", "croissant.json", "description.json"} <= set(made.manifest["files"])
    assert release.verify(made.path).ok


def test_the_ddi_document_says_what_the_codebook_says(made: release.Release) -> None:
    root = ET.fromstring((made.path / "ddi.xml").read_bytes())
    assert root.tag == "{ddi:codebook:2_5}codeBook"
    assert root.findtext("d:stdyDscr/d:citation/d:titlStmt/d:titl", namespaces=NS) == TOLD.title
    assert root.findtext("d:fileDscr/d:fileTxt/d:dimensns/d:caseQnty", namespaces=NS) == str(RECORDS)
    variables = {v.get("name"): v for v in root.iterfind("d:dataDscr/d:var", NS)}
    assert tuple(variables) == made.codebook.names
    for variable in made.codebook.variables:
        found = [c.findtext("d:catValu", namespaces=NS) for c in variables[variable.name].iterfind("d:catgry", NS)]
        assert found == [str(c) for c in variable.categories]
        perturbed = variables[variable.name].find("d:derivation", NS) is not None
        assert perturbed == (variable.name in made.mechanism.variables)
    assert variables["weight"].get("wgt") == "wgt"
    assert variables["sex"].get("wgt-var") == variables["weight"].get("ID")


def test_elements_stand_in_the_order_of_the_schema(made: release.Release) -> None:
    for element in ET.fromstring((made.path / "ddi.xml").read_bytes()).iter():
        order = ORDERS.get(element.tag.rpartition("}")[2])
        if order:
            places = [order.index(child.tag.rpartition("}")[2]) for child in element]
            assert places == sorted(places), element.tag


def test_croissant_names_file_columns_and_protection(made: release.Release) -> None:
    data = json.loads((made.path / "croissant.json").read_text("utf-8"))
    assert data["conformsTo"] == metadata.croissant.__globals__["CONFORMS"]
    (file,) = data["distribution"]
    assert file["sha256"] == file_digest(made.data_path) == made.manifest["files"]["data.parquet"]["sha256"]
    (records,) = data["recordSet"]
    assert [f["source"]["extract"]["column"] for f in records["field"]] == list(made.codebook.names)
    types = {f["name"]: f["dataType"] for f in records["field"]}
    assert (types["sex"], types["work"], types["weight"]) == ("sc:Text", "sc:Integer", "sc:Float")
    assert data["rai:dataLimitations"] == list(made.not_covered)
    assert "sex: identifying, known to others" in data["rai:personalSensitiveInformation"]
    assert data["license"] == TOLD.license


def test_the_bytes_are_a_function_of_public_things(made: release.Release, tmp_path: Path) -> None:
    law = LAW.bind(released_codebook(BOOK, Facts()))
    certificate, summary = certify(law, CLAIMS, Facts()), summarise(made.data_path, made.mechanism)
    again = metadata.files(TOLD, made.data_path, law, certificate, summary)
    for name, text in again.items():
        assert (made.path / name).read_text("utf-8") == text
        assert not re.search(r"\b(secret|dropped)\b", text)
        assert "name: " not in text.replace('"name: ', "")
    counted = {str(int(n)) for counts in summary.variables.values() for n in counts if n > 20} - {str(RECORDS)}
    words = set(re.findall(r"\b\d+\b", again["ddi.xml"]))
    assert not counted & (words - {"53", "2024", "01", "05"})


def test_a_file_takes_labels_from_ddi(made: release.Release, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("sex,region\nF,n\nM,e\n")
    (tmp_path / "book.xml").write_bytes((made.path / "ddi.xml").read_bytes())
    source = metadata.described(formats.read(path), read_ddi(tmp_path / "book.xml"))
    draft = infer.infer(source)[0]
    assert (draft["label"], draft["labels"]) == ("Sex", ["Female", "Male"])


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://www.icpsr.umich.edu/DDI"', ' xmlns="ddi:codebook:2_5"'])
def test_every_version_of_ddi_is_read(tmp_path: Path, namespace: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(
        f"""<?xml version="1.0" encoding="ISO-8859-1"?><codeBook{namespace}><dataDscr><var name="a" ID="V1">
        <labl level="variable">Marital
          status</labl><invalrng><item VALUE="8"/><range min="97" max="99"/><range min="a" max="b"/></invalrng>
        <catgry><catValu>1</catValu><labl>married</labl><catStat type="freq">12</catStat></catgry>
        <catgry missing="Y"><catValu>9</catValu></catgry></var></dataDscr></codeBook>""",
        encoding="latin-1",
    )
    assert read_ddi(path) == {
        "a": {
            "label": "Marital status",
            "value_labels": '{"1": "married"}',
            "missing_codes": '["9", "8", ["97", "99"]]',
        }
    }
    data = tmp_path / "x.csv"
    data.write_text("a\n1\n9\n98\n")
    draft = infer.infer(metadata.described(formats.read(data), read_ddi(path)))[0]
    assert draft["labels"] == ["married", "9", "98"]
    assert draft["missing_codes"] == ["9", "98"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<codeBook>", "not well-formed XML"),
        ("", "not well-formed XML"),
        ("<codeBook/>", "the document does not describe any variable"),
        ('<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><codeBook>&b;</codeBook>', "declares a document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/hostname"><x/>', "declares a document type"),
    ],
)
def test_bad_documents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(text)
    with pytest.raises(SpecificationError, match=message):
        read_ddi(path)
    with pytest.raises(SpecificationError, match="cannot be read"):
        read_ddi(tmp_path / "none.xml")


def test_a_description_of_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    with pytest.raises(SpecificationError, match="does not name any column of the file"):
        metadata.described(formats.read(path), {"b": {"label": "B"}})


def test_control_characters_cannot_break_the_document(made: release.Release) -> None:
    certificate = certify(made.mechanism, CLAIMS, Facts())
    text = ddi(Description(title="a\x00\x08\ud7ff<]]>"), "data.csv", made.mechanism, certificate, 3)
    assert ET.fromstring(text).findtext("d:stdyDscr/d:citation/d:titlStmt/d:titl", namespaces=NS) == "a��\ud7ff<]]>"


def test_the_plan_carries_the_description(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match=r"unknown option 'titel'.*did you mean 'title'"):
        plan_from_dict({"metadata": {"titel": "x"}}, tmp_path)
    with pytest.raises(SpecificationError, match="'title' is not text"):
        plan_from_dict({"metadata": {"title": 3}}, tmp_path)


def test_a_source_keeps_what_is_not_described(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    schema = pa.schema([pa.field("a", pa.string(), metadata={"label": "own", "format": "A1"}), ("b", pa.int64())])
    with formats.open_writer(path, schema) as writer:
        writer.write(pa.record_batch({"a": ["x"], "b": [1]}))
    source = metadata.described(formats.read(path), {"a": {"label": "given"}})
    assert source.schema.field("a").metadata == {b"label": b"given", b"format": b"A1"}
    assert next(source.batches()).num_rows == 1
