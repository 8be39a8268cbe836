"""``swapconf explain``: what a training YAML does at each layer and operator, and the log lines to expect."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from swapconf.cli.common import (
    EXIT_ERRORS,
    environment,
    format_option,
    print_findings,
    say,
    set_option,
    version_options,
)
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.config import overrides, rl_training
from swapconf.config.config import Dialect
from swapconf.decide import budget, log_lines, module_lines, modules
from swapconf.decide.strategy import Strategy
from swapconf.report import explanation
from swapconf.study.study import Study, study_for_check
from swapconf.words.columns import table
from swapconf.words.phrases import phrase, plural


@click.command(cls=Command)
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--layer", type=int, metavar="N", help="Only this layer.")
@format_option("json: every site of every layer, not folded.")
@set_option
@version_options
def command(
    file: str,
    layer: int | None,
    form: str,
    changes: tuple[str, ...],
    mindspore_version: str | None,
    mindformers_version: str | None,
) -> None:
    """Show what a training YAML asks for and what takes effect, layer by layer and operator by operator.

    Use it before a run: which requests take effect, why others do not, and which lines every worker will log. Equal
    layers share a row. `sites` counts primitives: the name of a cell stands for all primitives below it. The models of
    a YAML of RL training are shown one after the other; JSON has them by section.

    \b
    swapconf explain configs/llama2_7b/example4_swap_with_recompute.yaml
    swapconf explain configs/small/qwen3_default_swap.yaml --layer 0 --format json

    Exit codes: 0 shown; 1 shown, with findings of severity error; 2 the file could not be read, does not give the
    number of layers, or the command line is wrong."""
    try:
        study = study_for_check(overrides.of_file(file, changes), environment(), mindspore_version, mindformers_version)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    print_findings(study.findings, err=True)
    if study.parts:
        _explain_parts(study, layer, form)
    elif study.config.dialect is Dialect.PYNATIVE:
        _explain_modules(study, layer, form)
    else:
        _explain_layers(study, layer, form)
    raise SystemExit(EXIT_ERRORS if study.is_refused else 0)


def _explain_parts(study: Study, layer: int | None, form: str) -> None:
    """Each model of a YAML of RL training by itself."""
    known = {name: one for name, one in study.parts.items() if one.strategy is not None}
    for one in known.values():
        _needs_layer(one, layer)
    if form == "json":
        click.echo(f"{{{', '.join(f'{json.dumps(name)}: {_as_json(one, layer)}' for name, one in known.items())}}}")
    for name, one in study.parts.items() if form != "json" else ():
        say(_heading(name, one), bold=True)
        if one.strategy is not None:
            _show_layers(one, layer)
            say("")


def _heading(section: str, model: Study) -> str:
    if model.strategy is None:
        return phrase("{section}: its layers are not known", section=section)
    file = model.config.origin("model").file
    if section == rl_training.ASKED:
        return phrase("{section}, with the model of {file}; it is asked, and not trained", section=section, file=file)
    return phrase("{section}, with the model of {file}", section=section, file=file)


def _explain_layers(study: Study, layer: int | None, form: str) -> None:
    if study.strategy is None:
        raise click.ClickException(phrase("{reason}, so there is nothing to lay out", reason=study.why_no_strategy))
    _needs_layer(study, layer)
    if form == "json":
        click.echo(_as_json(study, layer))
    else:
        _show_layers(study, layer)


def _needs_layer(study: Study, layer: int | None) -> None:
    count = study.network.num_layers if study.network is not None else 0
    if layer is not None and not 0 <= layer < count:
        raise click.UsageError(phrase("--layer {layer}: the model has layers 0 to {last}", layer=layer, last=count - 1))


def _lines(strategy: Strategy) -> dict[str, tuple[str, ...]]:
    return {entry.layer.name: tuple(log_lines.lines(entry, strategy.swap_on)) for entry in strategy.layers}


def _as_json(study: Study, layer: int | None) -> str:
    assert study.strategy is not None
    return explanation.as_json(study.strategy, _lines(study.strategy), layer, log_lines.of_options(study.config))


def _show_layers(study: Study, layer: int | None) -> None:
    assert study.strategy is not None
    strategy, lines = study.strategy, _lines(study.strategy)
    if mode := study.config.mode_without_gradient:
        say(phrase("With `run_mode: {mode}` nothing of this takes effect; what a training would do:", mode=mode))
    _print_table(strategy, layer)
    shown = (entry.layer for entry in strategy.layers if layer in (None, entry.layer.index))
    _say_lines([*log_lines.of_options(study.config), *(line for one in shown for line in lines[one.name])])


def _explain_modules(study: Study, layer: int | None, form: str) -> None:
    chosen = [
        decision._replace(layers=decision.layers if layer is None else (layer,))
        for decision in study.modules
        if layer is None or layer in decision.layers
    ]
    known = modules.modules_of(study.config, study.versions.mindformers)
    with budget.shared():
        lines = {
            number: module_lines.lines(number, here)
            for number, here in modules.by_layer(study.config, known)
            if layer in (None, number)
        }
    if form == "json":
        click.echo(explanation.modules_as_json(chosen, lines))
        return
    from swapconf.cli.tables import print_rows  # loads rich

    rows = explanation.module_rows(chosen)
    if not rows:
        say(phrase("Nothing is asked for: every activation stays on the device."))
        return
    print_rows(
        *table(explanation.MODULES, rows),
        title=phrase("PyNative mode: modules as the YAML names them"),
        styles=("yellow" if row.void else "" for row in rows),
    )
    _say_lines(line for here in lines.values() for line in here)


def _say_lines(lines: Iterable[str]) -> None:
    expected = list(lines)
    say(phrase("\nLog lines to expect:") if expected else phrase("\nNo log lines to expect: nothing is asked for."))
    for line in expected:
        say(f"  {line}")


def _print_table(strategy: Strategy, layer: int | None) -> None:
    from swapconf.cli.tables import print_rows  # loads rich

    title = plural(
        strategy.network.num_layers,
        "{count} layer, {family}",
        "{count} layers, {family}",
        family=strategy.network.family or phrase("unknown family, operators not known"),
    )
    rows = list(explanation.rows(strategy, layer))
    if rows:
        print_rows(
            *table(explanation.OPERATORS, rows), title=title, styles=("yellow" if row.void else "" for row in rows)
        )
    else:
        say(phrase("Nothing is asked for: every activation stays on the device."))
