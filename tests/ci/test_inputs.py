from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hfconvert.ci.inputs import Inputs, read_inputs, variable
from hfconvert.errors import Exit, UserError

ROOT = Path(__file__).parent.parent.parent
DECLARED = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
INSTALLING = {"install", "python-version"}  # for the steps before


def problems(**environment: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        read_inputs(environment)
    assert caught.value.exit == Exit.RECIPE
    return [f"{one.subject}: {one.what}" for one in caught.value.problems]


def test_what_action_yml_gives_by_default_is_the_default() -> None:
    given = {
        variable(name): str(declared.get("default", ""))
        for name, declared in DECLARED.items()
        if name not in INSTALLING
    }
    assert read_inputs({**given, "HFC_SOURCE": "o/m"}) == read_inputs({"HFC_SOURCE": "o/m"})


def test_every_input(tmp_path: Path) -> None:
    read = read_inputs(
        {
            "HFC_RECIPE": " a.yaml \n\n\tb c.yaml\r\n",
            "HFC_SET": "dtype=bfloat16\noutput.path=x y\n",
            "HFC_PUBLISH": "commit",
            "HFC_MODE": "run",
            "HFC_DRY_RUN": "true",
            "HFC_TOKEN": "hf_x\n",
            "HFC_OIDC_RESOURCE": "o/m",
            "HFC_FAIL_ON": "warning",
            "HFC_ALLOW_REMOTE_CODE": "true",
            "HFC_WORKING_DIRECTORY": str(tmp_path),
            "INPUT_SOURCE": "what act would give",
        }
    )
    assert read == Inputs(
        recipes=("a.yaml", "b c.yaml"),
        source="",
        overrides=("dtype=bfloat16", "output.path=x y"),
        publish="commit",
        mode="run",
        dry_run=True,
        token="hf_x",
        oidc_resource="o/m",
        fail_on="warning",
        allow_remote_code=True,
        folder=tmp_path,
    )
    assert "hf_x" not in repr(read)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = problems(
        HFC_PUBLISH="pr",
        HFC_MODE="Run",
        HFC_DRY_RUN="True",
        HFC_OIDC_RESOURCE="me",
        HFC_FAIL_ON="always",
        HFC_ALLOW_REMOTE_CODE="1",
        HFC_WORKING_DIRECTORY="no/such",
    )
    assert [one.partition(":")[0] for one in said] == [
        *("mode", "publish", "fail-on", "dry-run", "allow-remote-code"),
        *("working-directory", "oidc-resource"),
    ]


def test_neither_recipe_nor_source() -> None:
    assert problems(HFC_RECIPE=" \n ") == ["recipe: neither a recipe nor a source is named"]
    assert read_inputs({"HFC_MODE": "check"}).recipes == ()


def test_one_source_for_several_recipes() -> None:
    assert problems(HFC_RECIPE="a\nb", HFC_SOURCE="o/m") == [
        "source: one source cannot be that of 2 recipes"
    ]
    judged = read_inputs({"HFC_RECIPE": "a\nb", "HFC_SOURCE": "o/m", "HFC_MODE": "check"})
    assert judged.recipes == ("a", "b")


@pytest.mark.parametrize("resource", ["me", "./path", "o/m@main", "datasets/o/m", "https://x/o/m"])
def test_a_publisher_is_of_one_repository(resource: str) -> None:
    (said,) = problems(HFC_SOURCE="o/m", HFC_OIDC_RESOURCE=resource)
    assert said.startswith("oidc-resource: ")
