"""The printed sarus.schema.json says the same about a sarus.json as the program: both judge the corpus in tests/data/sarus_json.

The program's half of the comparison is the unit test SiteConfigCorpus.
"""

import json
import warnings

import pytest
from helpers.installation import SOURCE

jsonschema = pytest.importorskip("jsonschema", reason="needs the Debian package python3-jsonschema")

ETC = SOURCE / "etc"
DATA = SOURCE / "tests/data/sarus_json"
MINIMAL = json.loads((DATA / "minimal.json").read_text())
CASES = json.loads((DATA / "cases.json").read_text())


@pytest.fixture(scope="module")
def validator(build_dir):
    schema = json.loads((build_dir / "etc/sarus.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator.check_schema(json.loads((ETC / "definitions.schema.json").read_text()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        resolver = jsonschema.RefResolver(base_uri=(ETC / "sarus.schema.json").as_uri(), referrer=schema)
    return jsonschema.Draft7Validator(schema, resolver=resolver)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_schema_judges_like_the_program(validator, case):
    document = {key: value for key, value in {**MINIMAL, **case.get("set", {})}.items() if key not in case.get("remove", [])}
    errors = [error.message for error in validator.iter_errors(document)]
    # The program ignores what Sarus 1.7 ignored. Editors and configuration management shall find it.
    assert (errors == []) == (case["valid"] and "ignored" not in case), errors


def test_documentation_example_is_valid(validator):
    validator.validate(json.loads((DATA / "documentation_example.json").read_text()))


def test_template_is_valid_once_its_placeholders_are_replaced(validator):
    text = (ETC / "templates/sarus.json.in").read_text()
    parts = text.split("@")
    validator.validate(json.loads("".join("/replaced" if i % 2 else part for i, part in enumerate(parts))))
