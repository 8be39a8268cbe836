"""Write swapconf/models/families/*.json from the real cells of the installed MindSpore and MindSpore Transformers.

    python scripts/build_families.py                      # every family, as shipped
    python scripts/build_families.py --family llama --first-variant --out DIR

With the releases that most was measured with, a file holds the whole family; with others, ``RELEASE/FAMILY.json`` holds
what differs from it (``swapconf.models.deltas``). ``--whole`` and the flags that leave something out give whole files.

Each family is built in a child process (mindformers keeps its kind of model in a global), in a scratch directory
(both frameworks write logs where they run). ``--trees-only`` skips the compiles: executed, saved stay null; families
of one kind then share a child, which imports both frameworks once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import catalog_delta
import catalog_legacy
import catalog_mcore
from catalog_cases import FamilyCase, VariantCase
from catalog_graph import Facts

from swapconf.models.family import Kind, Switch
from swapconf.models.network import Operator
from swapconf.train.cells import read_layer
from swapconf.upstream.releases import REFERENCE

DefaultOf = Callable[[FamilyCase, Sequence[str]], Any]

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "swapconf" / "models" / "families"
FAMILIES = {case.name: case for case in (*catalog_legacy.FAMILIES, *catalog_mcore.FAMILIES)}
SCHEMA = 1
SHORT = 100
# Which of them executes, and what then moves, depends on the parallel configuration, not on the model.
COMMUNICATION = {"AllReduce", "ReduceScatter"}


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.family or list(FAMILIES)
    if options.child:
        for name in names:
            _write_family(FAMILIES[name], options)
        return
    for together in _of_one_kind(names) if options.trees_only else [[name] for name in names]:
        _run_child(together, options)
    if not options.as_delta:
        index = {name: {"legacy": case.legacy, **case.identify} for name, case in FAMILIES.items()}
        _write(options.out / "families.json", {"schema": SCHEMA, "families": index})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="default: every family")
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), default=SHIPPED)
    parser.add_argument("--first-variant", action="store_true", help="only the first variant of each family")
    parser.add_argument("--trees-only", action="store_true", help="do not compile")
    parser.add_argument("--whole", action="store_true", help="no delta, whichever release is installed")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    partial = options.whole or options.first_variant or options.trees_only
    options.as_delta = not partial and version("mindformers") != REFERENCE["mindformers"]
    return options


def _of_one_kind(names: Sequence[str]) -> list[list[str]]:
    """Legacy families, and the others: each kind can be built in one process, as long as nothing is compiled."""
    kinds = [[name for name in names if FAMILIES[name].legacy is legacy] for legacy in (True, False)]
    return [kind for kind in kinds if kind]


def _run_child(names: Sequence[str], options: argparse.Namespace) -> None:
    given = {"--first-variant": options.first_variant, "--trees-only": options.trees_only, "--whole": options.whole}
    flags = [flag for flag, is_given in given.items() if is_given]
    chosen = [word for name in names for word in ("--family", name)]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, __file__, "--child", *chosen, "--out", str(options.out), *flags],
            cwd=scratch,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            check=True,
        )


def _write_family(case: FamilyCase, options: argparse.Namespace) -> None:
    import catalog_network  # heavy: only a child imports the frameworks

    if not catalog_network.has(case):
        print(f"{case.name}: mindformers {version('mindformers')} has no such model", file=sys.stderr, flush=True)
        return
    catalog_network.prepare(legacy=case.legacy)
    switches = _switches(case, catalog_network.default_of)
    variants = []
    for number, variant in enumerate(case.variants[: 1 if options.first_variant else None]):
        network = catalog_network.build(case, variant.build)
        facts = None
        if not options.trees_only:
            facts = _facts(case, variant, network, Path(f"ir_{number}").resolve())
        templates = {
            name: _template(name, catalog_network.layer_at(network, path), facts)
            for name, path in case.templates.items()
        }
        when = [{**case.tiny, **alternative} for alternative in variant.alternatives]
        variants.append({"when": [_values(switches, config) for config in when], "templates": templates})
    family = {
        "schema": SCHEMA,
        "family": case.name,
        "title": case.title,
        "legacy": case.legacy,
        "made_with": {package: version(package) for package in ("mindspore", "mindformers")},
        "flash_attention": case.flash_attention,
        "layout": _layout(case, catalog_network.default_of),
        "measured_with": case.tiny,
        "switches": {name: _fields(switch) for name, switch in switches.items()},
        "variants": variants,
    }
    file = f"{case.name}.json"
    if options.as_delta:
        shipped = json.loads((SHIPPED / file).read_text(encoding="utf-8"))
        as_read = json.loads(json.dumps(family))  # its tuples as the lists that a file has
        _write(options.out / version("mindformers") / file, catalog_delta.delta(shipped, as_read))
    else:
        _write(options.out / file, family)


def _facts(case: FamilyCase, variant: VariantCase, network: Any, dump: Path) -> Facts | None:
    import catalog_network

    start = time.monotonic()
    try:
        facts = catalog_network.compile_facts(network, case.templates, dump)
    except Exception as error:  # unknown stays unknown: never guess
        print(f"{case.name} {variant.build}: NOT COMPILED: {error}\n{error.__cause__}", file=sys.stderr, flush=True)
        return None
    print(f"{case.name} {variant.build}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return facts


def _template(name: str, layer: Any, facts: Facts | None) -> dict[str, Any]:
    template = read_layer(layer, name)
    order = {operator.path: number for number, operator in enumerate(template.operators)}
    return {
        "cell": template.cell,
        "operators": [_operator(name, operator, facts, order) for operator in template.operators],
    }


def _operator(template: str, operator: Operator, facts: Facts | None, order: dict[str, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"path": operator.path, operator.kind: operator.type}
    if operator.preset_recompute is not None:
        row["preset_recompute"] = operator.preset_recompute
    if facts is not None and operator.kind == "primitive":
        site = (template, operator.path)
        if operator.type not in COMMUNICATION:
            row |= {"executed": site in facts.executed, "saved": site in facts.saved}
        if consumers := {path for _, path in facts.consumers.get(site, ())}:
            row["consumers"] = sorted(consumers, key=order.__getitem__)
    return row


def _switches(case: FamilyCase, default_of: DefaultOf) -> dict[str, Switch]:
    return {
        name: Switch(kind=cast(Kind, kind), keys=(name, *aliases), default=default_of(case, (name, *aliases)))
        for name, (kind, *aliases) in case.switches.items()
    }


def _fields(switch: Switch) -> dict[str, Any]:
    return {"kind": switch.kind, "keys": switch.keys, "default": switch.default}


def _values(switches: dict[str, Switch], config: dict[str, Any]) -> dict[str, bool | str]:
    return {name: switch.value(config) for name, switch in switches.items()}


def _layout(case: FamilyCase, default_of: DefaultOf) -> dict[str, Any]:
    keys = {name: value for name, value in case.layout.items() if name != "templates"}
    return {
        "templates": case.layout["templates"],
        **{name: {"keys": list(value), "default": default_of(case, value)} for name, value in keys.items()},
    }


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_lines(value, 0) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int) -> str:
    """JSON with one operator, and anything else that is short, on one line."""
    text = json.dumps(value, ensure_ascii=False)
    is_operator = isinstance(value, dict) and "path" in value
    if len(text) <= SHORT or is_operator or not isinstance(value, (dict, list)):
        return text
    indent = "  " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [_lines(item, depth + 1) for item in value]
    body = ",\n".join(indent + item for item in items)
    return f"{text[0]}\n{body}\n{'  ' * depth}{text[-1]}"


if __name__ == "__main__":
    main()
