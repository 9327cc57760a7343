from __future__ import annotations

from pathlib import Path

import pytest

from hfconvert.errors import UserError
from hfconvert.recipe import Location
from hfconvert.recipe.bulk import Bulk, load_bulk, parse_bulk, recipe_for

FULL = """version: 1
org: my-org
select:
  library: transformers
  tags: [text-generation]
  has: "*.bin"
  lacks: ["*.safetensors"]
  pattern: my-org/llama-*
  exclude: [my-org/old-*]
  updated_since: 2024-01-01
  max_bytes: 20GB
rules:
  - when: {has: adapter_config.json}
    recipe:
      version: 1
      source: {repo: "${adapter.base}"}
      lora: {adapters: [{adapter: "${repo}"}]}
  - when: {}
    recipe:
      source: {repo: "${repo}"}
      output: {path: out}
limits: {parallel: 2, memory: 4GB, disk: 100GB, bytes_per_run: 1TB, commits_per_hour: 60, deadline: 5h}
engine: local
opt_out: {tag: no-conversion, file: .no-conversion}
"""


def bulk(text: str, *overrides: str) -> Bulk:
    return parse_bulk(text, "bulk.yaml", overrides)


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as caught:
        bulk(text)
    return [(problem.subject, problem.what) for problem in caught.value.problems]


def test_everything_that_a_bulk_file_holds() -> None:
    found = bulk(FULL)
    assert found.org == "my-org"
    assert found.select.model_dump() == {
        "library": ("transformers",),
        "tags": ("text-generation",),
        "has": ("*.bin",),
        "lacks": ("*.safetensors",),
        "pattern": ("my-org/llama-*",),
        "exclude": ("my-org/old-*",),
        "updated_since": "2024-01-01",
        "max_bytes": 20_000_000_000,
    }
    assert found.limits.model_dump() == {
        "parallel": 2,
        "memory": 4 * 10**9,
        "disk": 100 * 10**9,
        "bytes_per_run": 10**12,
        "commits_per_hour": 60,
        "deadline": 18_000,
    }
    assert found.opt_out.model_dump() == {"tag": "no-conversion", "file": ".no-conversion"}
    assert [rule.when.has for rule in found.rules or ()] == [("adapter_config.json",), None]


def test_defaults() -> None:
    found = bulk("version: 1\nrepos: [a/b, a/c]\nrecipe: {source: {repo: '${repo}'}}\n")
    assert found.repos == ("a/b", "a/c")
    assert set(found.select.model_dump().values()) == {None}
    assert (found.limits.parallel, found.engine, found.opt_out.tag) == (1, "local", None)
    assert found.recipe is not None
    assert found.recipe.version == 1


def test_the_recipe_for_one_repository() -> None:
    found = bulk(FULL)
    values = {"repo": "my-org/x", "adapter": {"base": "org/base"}}
    merge = recipe_for(found, ("rules", 0, "recipe"), values)
    assert merge.source.repo == "org/base"
    assert merge.lora is not None
    assert merge.lora.adapters[0].adapter == Location(repo="my-org/x")
    assert merge.position("lora", "adapters") == "bulk.yaml:17:14"
    plain = recipe_for(found, ("rules", 1, "recipe"), values)
    assert (plain.source.repo, plain.output.path) == ("my-org/x", Path("out"))


def test_a_value_that_does_not_fit_one_repository() -> None:
    with pytest.raises(UserError) as caught:
        recipe_for(bulk(FULL), ("rules", 0, "recipe"), {"repo": "my-org/x", "adapter": {}})
    (problem,) = caught.value.problems
    assert (problem.subject, problem.what) == ("bulk.yaml:16:22", "`${adapter.base}` has no value")


def test_files_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "bulk.yaml"
    path.write_text(FULL)
    found = load_bulk(path, ["limits.parallel=8", "rules.1.recipe.dtype=bfloat16"])
    assert found.limits.parallel == 8
    assert recipe_for(found, ("rules", 1, "recipe"), {"repo": "a/b"}).dtype.default == "bfloat16"
    assert found.position("limits", "parallel") == "--set limits.parallel"
    assert found.base == tmp_path


RECIPE = "recipe: {source: {repo: '${repo}'}}"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            f"version: 1\n{RECIPE}\n",
            [("bulk.yaml:1:1", "none of `org` or `repos` or `collection` is given")],
        ),
        (
            f"version: 1\norg: a\nrepos: [a/b]\n{RECIPE}\n",
            [("bulk.yaml:3:1", "`repos` stands beside `org`")],
        ),
        ("version: 1\norg: a\n", [("bulk.yaml:1:1", "none of `recipe` or `rules` is given")]),
        (
            f"version: 1\norg: a\n{RECIPE}\nselect: {{hass: x, updated_since: yesterday}}\n",
            [
                ("bulk.yaml:4:10", "unknown key `hass`"),
                ("bulk.yaml:4:34", "`yesterday` is not a date"),
            ],
        ),
        (
            "version: 1\norg: a\nrules:\n- when: {}\n  recipe: {source: {repo: '${rep}', path: x}}\n",
            [
                ("bulk.yaml:5:27", "`${rep}` begins with an unknown name"),
                ("bulk.yaml:5:43", "both `repo` and `path` are given"),
            ],
        ),
        (
            "version: 1\norg: a\nrecipe: {source: {repo: '${repo.x}'}, key_map: [{renam: {}}]}\n",
            [
                ("bulk.yaml:3:25", "`${repo.x}` is not a value"),
                ("bulk.yaml:3:49", "there is no step `renam`"),
            ],
        ),
        (
            f"version: 1\norg: a\n{RECIPE}\nlimits: {{memory: 4, deadline: soon, parallel: 0}}\n",
            [
                ("bulk.yaml:4:18", "`4` is a bare number"),
                ("bulk.yaml:4:31", "`soon` is not a span of time"),
                ("bulk.yaml:4:47", "`parallel` must be greater than or equal to 1"),
            ],
        ),
        (
            f"version: 1\nrepos: [a/b/c]\n{RECIPE}\nengine: spark\n",
            [
                ("bulk.yaml:2:9", "`a/b/c` is not the id of a repository"),
                ("bulk.yaml:4:9", "`engine` cannot be `spark`"),
            ],
        ),
        ("- a\n", [("bulk.yaml:1:1", "the file must be a mapping, not a list of 1")]),
    ],
)
def test_refused(text: str, problems: list[tuple[str, str]]) -> None:
    assert refused(text) == problems
