"""SEAMS: the names of mindformers that the hook replaces or calls, and whether the installed mindformers has them.

They are looked up in the text of its modules, before anything of it is imported: a name that is missing in one module
must keep the hook out of all the others. Source: mindformers 1.7.0 to 2.1.0, where all of them are the same;
1.6.0 has two LayerSettings, one of them in another module.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

from swapconf.words.phrases import joined, phrase, show

PACKAGE = "mindformers"
FIRST, LAST = "1.7.0", "2.1.0"  # the releases that have every seam
PYNATIVE_FIRST = "2.0.0"  # with LAST, the releases that have every seam of PyNative training
LAYER_SETTING = "mindformers.parallel_core.training_graph.transformer.utils"
SWAP_CONFIG = "mindformers.modules.transformer.transformer"
PARALLEL_CONFIG = "mindformers.core.parallel_config"
CHECK_RULES = "mindformers.tools.check_rules"
BASE_TRAINER = "mindformers.trainer.base_trainer"
LOGGER = "mindformers.tools.logger"
ACTIVATION = "mindformers.pynative.distributed.activation_checkpoint"
PYNATIVE_TRAINER = "mindformers.pynative.trainer.trainer"


@dataclass(frozen=True, slots=True)
class Seam:
    """A name in a module. ``parameters``: of the function, in order; None for what is no function."""

    module: str
    name: str
    parameters: tuple[str, ...] | None = None


SEAMS = (
    Seam(
        LAYER_SETTING,
        "LayerSetting.__init__",
        ("self", "num_layers", "offset", "parallel_config", "pp_interleave_num", "start_stage", "stage_num"),
    ),
    Seam(LAYER_SETTING, "LayerSetting.__call__", ("self", "layer", "layer_id")),
    Seam(LAYER_SETTING, "LayerSetting.set_swap", ("self", "layer", "layer_id")),  # one that swaps at all
    Seam(SWAP_CONFIG, "TransformerSwapConfig._initialize_swap", ("self", "layer_swap", "op_swap")),
    Seam(SWAP_CONFIG, "TransformerSwapConfig.to_dict", ("self",)),
    Seam(PARALLEL_CONFIG, "build_parallel_config", ("config",)),
    Seam(CHECK_RULES, "_check_swap", ("config",)),
    Seam(CHECK_RULES, "_check_recompute", ("config",)),
    Seam(BASE_TRAINER, "BaseTrainer._check_grad_accumulation_steps", ("self",)),
    Seam(LOGGER, "logger"),
)
# those of PyNative training. Source: mindformers 2.0.0 and 2.1.0, where all of them are the same
PYNATIVE_SEAMS = (
    Seam(ACTIVATION, "apply_ac", ("model", "recompute", "recompute_comm", "swap", "pp", "mtp_block")),
    Seam(ACTIVATION, "apply_recompute", ("model", "recompute_config", "recompute_comm_config")),  # called by apply_ac
    Seam(ACTIVATION, "_get_modules_and_ops_list", ("model",)),
    Seam(ACTIVATION, "_MtpLayerView.__init__", ("self", "decoder", "mtp_block")),
    Seam(ACTIVATION, "logger"),
    Seam(PYNATIVE_TRAINER, "Trainer.train", ("self", "checkpoint_path", "mode")),
)


def complete_or_told() -> bool:
    """Whether mindformers has every seam; where it has not, stderr says what is missing and what to do."""
    lacks = missing()
    if lacks:
        _say(
            phrase(
                "swapconf: steps aside, nothing of mindformers is replaced: the installed mindformers is not "
                "one that swapconf knows how to work with: {lacks}",
                lacks=joined("; ", lacks),
            ),
            phrase(
                "swapconf: the run goes on as plain mindformers: its own LayerSetting applies swap and "
                "recompute and logs them, and what `swapconf explain` shows may not hold; install one of "
                "mindformers {first} to {last}, or start the script without swapconf",
                first=FIRST,
                last=LAST,
            ),
        )
    return not lacks


def pynative_complete_or_told() -> bool:
    """The same of PyNative training."""
    lacks = missing(PYNATIVE_SEAMS)
    if lacks:
        _say(
            phrase(
                "swapconf: steps aside, nothing of PyNative training is replaced: the installed mindformers is not "
                "one that swapconf knows how to work with: {lacks}",
                lacks=joined("; ", lacks),
            ),
            phrase(
                "swapconf: the run goes on as plain mindformers: its own apply_ac applies recompute and swap and "
                "logs them, and what `swapconf explain` shows may not hold; install mindformers {first} or {last}, "
                "or start the script without swapconf",
                first=PYNATIVE_FIRST,
                last=LAST,
            ),
        )
    return not lacks


def _say(*lines: str) -> None:
    print(*(show(line) for line in lines), sep="\n", file=sys.stderr, flush=True)


def missing(seams: Iterable[Seam] = SEAMS, package: str = PACKAGE) -> tuple[str, ...]:
    """What the installed mindformers lacks, in words; empty where it has every seam. Imports nothing of it.

    Also empty where there is no mindformers at all: then there is nothing to replace.
    """
    top = importlib.util.find_spec(package)
    if top is None:
        return ()
    by_module: dict[str, list[Seam]] = {}
    for seam in seams:
        by_module.setdefault(seam.module, []).append(seam)
    return tuple(lack for module, wanted in by_module.items() for lack in _lacking(top, module, wanted))


def _lacking(top: ModuleSpec, module: str, wanted: Iterable[Seam]) -> Iterator[str]:
    try:
        source = _source(top, module)
        tree = None if source is None else ast.parse(source)
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        yield phrase("the module {module} cannot be read ({reason})", module=module, reason=error)
        return
    if tree is None:
        yield phrase("there is no module {module}", module=module)
        return
    for seam in wanted:
        found = _named(tree.body, seam.name.split("."))
        if found is None:
            yield phrase("{module} has no {name}", module=module, name=seam.name)
        elif seam.parameters is not None and (given := _parameters(found)) != seam.parameters:
            yield phrase(
                "{module}: {name} takes ({found}), not ({expected})",
                module=module,
                name=seam.name,
                found=", ".join(given or ("?",)),
                expected=", ".join(seam.parameters),
            )


def _source(top: ModuleSpec, module: str) -> str | None:
    """The text of a module of a package, found step by step without importing; None where there is no such module."""
    spec: ModuleSpec | None = top
    name = top.name
    for part in module.split(".")[1:]:
        name = f"{name}.{part}"
        folders = spec.submodule_search_locations if spec is not None else None
        spec = PathFinder.find_spec(name, list(folders)) if folders else None
    read = getattr(spec.loader, "get_source", None) if spec is not None else None
    text: str | None = read(name) if read is not None else None
    return text


def _named(body: Iterable[ast.stmt], path: Sequence[str]) -> ast.stmt | None:
    """The last definition of a dotted name among statements, also below ``if`` and ``try``."""
    found: ast.stmt | None = None
    name, *rest = path
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            found = _named(_branches(statement), path) or found
        elif name not in _defined(statement):
            continue
        elif not rest:
            found = statement
        elif isinstance(statement, ast.ClassDef):
            found = _named(statement.body, rest)
    return found


def _branches(statement: ast.If | ast.Try) -> Iterator[ast.stmt]:
    yield from (*statement.body, *statement.orelse)
    if isinstance(statement, ast.Try):
        for handler in statement.handlers:
            yield from handler.body
        yield from statement.finalbody


def _defined(statement: ast.stmt) -> Sequence[str]:
    """The names that one statement gives something to."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement.name]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [statement.target]
        if isinstance(statement, ast.AnnAssign)
        else []
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _parameters(statement: ast.stmt) -> tuple[str, ...] | None:
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    given = statement.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return tuple(names)
