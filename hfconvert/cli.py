"""The commands. Each loads, acts and reports; this is the only place that exits.

What a command needs is imported when it runs, so that `--help` is quick and nothing imports torch unasked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hfconvert.edge import Act, OnFailure, answer, guarded
from hfconvert.errors import Exit, UserError

if TYPE_CHECKING:
    from hfconvert.console import Console
    from hfconvert.recipe import Recipe
    from hfconvert.report.model import Report

app = typer.Typer(
    name="hfconvert",
    help="Convert checkpoints to safetensors without executing them, and prove the result.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="The recipe, a YAML file; or a folder, file or org/name: then what `init` would write.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY.PATH=VALUE", help="Change the recipe; the value is YAML. Repeatable."
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="DIR", help="The output folder.")
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.json",
        help="Write the report to a file too; as Markdown where its name ends in .md.",
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE.html", help="Write the report as a page of its own too."),
]
RemoteCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-remote-code",
        help="Let checks run the repository's own model code, where the recipe says so too.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Say more.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Say only what went wrong.")]


@app.command()
def run(  # noqa: PLR0913 - one parameter an option of the contract
    recipe: RecipeArgument,
    overrides: SetOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    html: HtmlOption = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Stop after the plan.")] = False,
    no_publish: Annotated[
        bool, typer.Option("--no-publish", help="Stop after the proof: publish nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Propose again what was merged, or what its owner closed."),
    ] = False,
    allow_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Convert what a recipe describes, check it, and write the output folder or publish it."""
    from hfconvert.preview import dry_run as stop_early
    from hfconvert.proving.models import Allowed
    from hfconvert.report.documents import failed_report_document, report_document
    from hfconvert.report.text import report_text
    from hfconvert.run import ChecksFailedError
    from hfconvert.run import run as convert

    console = _console(as_json, verbose, quiet)
    allowed = Allowed(remote_code=allow_remote_code)

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        _check_page(html)
        loaded = _load(recipe, overrides, output)
        if no_publish:
            loaded = loaded.model_copy(update={"publish": None})
        try:
            done = stop_early(loaded) if dry_run else convert(loaded, console, allowed, force=force)
            code = Exit.OK
        except ChecksFailedError as failed:
            done, code = failed.report, Exit.VALUES
        _write_page(html, done)
        return report_document(done), report_text(done), code

    _answer(console, act, _with_page(html, failed_report_document), report)


@app.command()
def plan(
    recipe: RecipeArgument,
    overrides: SetOption = None,
    output: OutputOption = None,
    *,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what a run would read, make, check and write. Reads headers only."""
    from hfconvert.quick import plan as answer_plan

    raise typer.Exit(
        answer_plan(recipe, _console(as_json, verbose, quiet), overrides or (), output)
    )


@app.command()
def verify(  # noqa: PLR0913 - one parameter an option of the contract
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The source: a folder, file or org/name.")
    ],
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="What somebody made of it, also @refs/pr/3.")
    ],
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="RECIPE", help="What lies between, where it is not found by itself."),
    ] = None,
    overrides: SetOption = None,
    report: ReportOption = None,
    html: HtmlOption = None,
    *,
    comment: Annotated[
        bool,
        typer.Option("--comment", help="Post the report on the pull request that CANDIDATE is."),
    ] = False,
    allow_remote_code: RemoteCodeOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove somebody's conversion against its source: names, values, dtypes, files, logits."""
    from hfconvert.proving.models import Allowed
    from hfconvert.report.documents import failed_report_document, report_document
    from hfconvert.report.verified import verified_text
    from hfconvert.verifying.verify import verify as prove

    console = _console(as_json, verbose, quiet)
    refused: list[UserError] = []

    def verified() -> Report:
        loaded = _load(str(recipe), overrides, None) if recipe else None
        return prove(source, candidate, loaded, console, Allowed(remote_code=allow_remote_code))

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        _check_page(html)
        if comment:
            from hfconvert.publishing.commenting import verify_and_comment

            done, refusal = verify_and_comment(candidate, verified)
            refused.extend([refusal] if refusal else [])
        else:
            done = verified()
        code = Exit.VALUES if done.status == "failed" else Exit.OK
        _write_page(html, done)
        return report_document(done), verified_text(done), refused[0].exit if refused else code

    code = answer(console, act, _with_page(html, failed_report_document), report)
    for problem in (problem for one in refused for problem in one.problems):
        console.problem(problem)  # after the report, which holds all the same
    raise typer.Exit(code)


@app.command()
def inspect(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A folder, a file, or org/name[@revision].")
    ],
    *,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what a folder, file or repository is: format, tensors, ties, what its pickles ask for."""
    from hfconvert.quick import inspect as look

    raise typer.Exit(look(what, _console(as_json, verbose, quiet)))


@app.command()
def init(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A folder, a file, or org/name[@revision].")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE.yaml", help="Write it to a new file.")
    ] = None,
    *,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a commented recipe for a folder, file or repository. It runs as it is."""
    from hfconvert.init import init_document

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        document = init_document(what, output)
        return document, f"wrote {output}" if output else document["recipe"].rstrip(), Exit.OK

    _answer(_console(as_json, verbose, quiet), act, None)


@app.command()
def schema(
    name: Annotated[str, typer.Argument(metavar="[recipe|bulk]", help="Which schema.")] = "recipe",
) -> None:
    """Print the JSON Schema of the recipe, or of the bulk file."""
    from hfconvert.errors import recipe_problem
    from hfconvert.recipe.schema import bulk_schema, recipe_schema

    schemas = {"recipe": recipe_schema, "bulk": bulk_schema}

    def act() -> tuple[Mapping[str, Any], str, Exit]:
        if name not in schemas:
            known = " and ".join(schemas)
            raise UserError(
                recipe_problem(
                    f"there is no schema called {name!r}", why=f"there are {known}", do="name one"
                )
            )
        return schemas[name](), "", Exit.OK

    _answer(_console(as_json=True, verbose=False, quiet=False), act, None)


@app.command()
def ci(
    *,
    needs: Annotated[
        bool,
        typer.Option("--needs", help="Say which extra the recipes need, or nothing; then stop."),
    ] = False,
) -> None:
    """What the GitHub Action calls: inputs are HFC_* in the environment; see action.yml."""
    from hfconvert.console import Console

    console = Console(verbosity=int(bool(os.environ.get("RUNNER_DEBUG"))), bars=False)
    if needs:
        from hfconvert.ci.needs import extra

        console.result(extra(os.environ))
        return
    from hfconvert.ci.step import act

    _answer(console, lambda: ({}, "", act(os.environ, console)), None)


@app.callback(invoke_without_command=True)
def _version(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from hfconvert import __version__
        from hfconvert.console import Console

        Console().result(f"hfconvert {__version__}")
        raise typer.Exit


def main() -> int:
    """The console script: the exit code of the command that the arguments name."""
    # typer returns the code of typer.Exit, and makes 130 of KeyboardInterrupt
    return guarded(lambda: int(app(standalone_mode=False) or Exit.OK))


def _answer(
    console: Console, act: Act, on_failure: OnFailure | None, copy_to: Path | None = None
) -> None:
    raise typer.Exit(answer(console, act, on_failure, copy_to))


def _load(recipe: str, overrides: Sequence[str] | None, output: Path | None) -> Recipe:
    from hfconvert.recipes import recipe_of

    return recipe_of(recipe, tuple(overrides or ()), output)


def _console(as_json: bool, verbose: bool, quiet: bool) -> Console:
    from hfconvert.console import Console

    return Console(verbosity=-1 if quiet else int(verbose), as_json=as_json)


def _check_page(path: Path | None) -> None:
    """UserError (exit 2) where no page can be written there, before any work is done."""
    if path is not None and not os.path.isdir(path.parent):  # noqa: PTH112 - never raises
        raise _no_page(path, "there is no such folder", "choose another place")


def _write_page(path: Path | None, report: Report) -> None:
    if path is None:
        return
    from hfconvert.report.page import report_page

    try:
        path.write_text(report_page(report), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        do = "choose another place; what was converted is complete"
        raise _no_page(path, error.strerror or str(error), do) from error


def _no_page(path: Path, how: str, do: str) -> UserError:
    from hfconvert.errors import recipe_problem

    return UserError(
        recipe_problem(
            f"--html: the page cannot be written to {path}: {how}",
            why="its folder is not there or read-only, or the disk is full",
            do=do,
        )
    )


def _with_page(path: Path | None, on_failure: OnFailure) -> OnFailure:
    """The document of a command that stopped, which a page then shows as well."""

    def failed(error: UserError) -> Mapping[str, Any]:
        document = on_failure(error)
        if path is not None:
            from hfconvert.report.page import document_page

            page = document_page(document)
            with suppress(OSError):  # what stopped the command is said, with a page or without
                path.write_text(page, encoding="utf-8", errors="backslashreplace")
        return document

    return failed
