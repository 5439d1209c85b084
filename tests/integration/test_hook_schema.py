"""etc/hook.schema.json and the templates of hook files. The program's half of the comparison is the unit test HookConfigCorpus."""

import json

import pytest
from helpers.installation import SOURCE

jsonschema = pytest.importorskip("jsonschema", reason="needs the Debian package python3-jsonschema")

CASES = json.loads((SOURCE / "tests/data/hook_json/cases.json").read_text())
TEMPLATES = sorted((SOURCE / "etc/templates/hooks.d").glob("*.json.in"))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((SOURCE / "etc/hook.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_schema_judges_like_the_program(validator, case):
    assert validator.is_valid(case["document"]) == case["valid"]


def test_templates_have_the_names_that_scripts_of_sites_type():
    """Those of the reference; and no two of one number, whose order would be a matter of spelling."""
    names = [template.name.removesuffix(".json.in") for template in TEMPLATES]
    assert {"01-glibc-hook", "03-nvidia-container-toolkit", "05-mpi-hook", "07-ssh-hook", "09-slurm-global-sync-hook"} < set(names)
    assert len({name.split("-")[0] for name in names}) == len(names)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_template_is_valid_and_its_conditions_make_sense(validator, template):
    document = json.loads(template.read_text().replace("@INSTALL_PATH@", "/opt/sarus"))
    validator.validate(document)
    assert "always" not in document["when"] or len(document["when"]) == 1
