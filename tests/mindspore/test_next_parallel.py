"""docs/how-to/next-generation.md, from a published YAML to a confirmed plan: what the page says is done, in its order.

With the published model that takes minutes, and prints what the page shows. With a small one of its kind it takes
seconds, and every command ends as on the page.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from swapconf.words.units import parse_bytes
from tests.helpers import ROOT, scratch
from tests.mindspore import shown as page
from tests.mindspore import test_pynative_parallel as newer

pytestmark = newer.pytestmark
TEXT = (ROOT / "docs/how-to/next-generation.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("\n## 8. ") : TEXT.index("\n## 9. ")]
BLOCKS = page.blocks(SECTION)
STEPS = re.findall(r"^```(bash|text|diff)\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
SMALL = {
    "num_hidden_layers": (16, 4),
    "vocab_size": (129280, 1024),
    "hidden_size": (1792, 128),
    "intermediate_size": (3072, 512),
    "q_lora_rank": (1536, 128),
    "kv_lora_rank": (512, 64),
    "moe_intermediate_size": (1024, 128),
    "moe_shared_expert_intermediate_size": (1024, 128),
    "seq_length": (4096, 512),
    "global_batch_size": (8, 4),
}
OF_SMALL = {"15GB": "38MB", "'8-15'": "'2-3'"}  # what the page says of the model that it is about
SECOND_STAGE = range(2, 5)  # the last for multi-token prediction


@dataclass(frozen=True)
class Walked:
    """``ended``: by number, how each command did and what it printed. ``yaml``: as it is left."""

    ended: list[subprocess.CompletedProcess[str]]
    yaml: Path


@cache
def walked(is_small: bool) -> Walked:
    """With a cache of its own, so that what is dry-run is run."""
    folder = scratch("next-parallel")
    file, ended = folder / "deepseek3.yaml", []
    for kind, body in STEPS:
        if kind == "bash":
            path = f"{newer.NEWER.parent}:{os.environ['PATH']}"
            subprocess.run(["bash", "-ec", body], cwd=folder, env={**os.environ, "PATH": path}, check=True)
            if is_small:
                shrink(file)
        elif kind == "diff":
            edit(file, body)
        else:
            command = body.removeprefix("$ ").partition("\n")[0]
            for told, instead in OF_SMALL.items() if is_small else ():
                command = command.replace(told, instead)
            ended.append(page.ended(command, folder, newer.NEWER, XDG_CACHE_HOME=str(folder)))
    return Walked(ended, file)


def shrink(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for key, (before, after) in SMALL.items():
        text, count = re.subn(rf"^( +{key}): {before}\b", rf"\1: {after}", text, flags=re.MULTILINE)
        assert count, key
    file.write_text(text, encoding="utf-8")


def edit(file: Path, difference: str) -> None:
    """By lines that go, each with the one that comes in its place."""
    text = file.read_text(encoding="utf-8")
    for before, after in list(pairwise(difference.splitlines()))[::2]:
        assert (before[0], after[0]) == ("-", "+")
        assert text.count(f"{before[1:]}\n") == 1, before
        text = text.replace(f"{before[1:]}\n", f"{after[1:]}\n")
    file.write_text(text, encoding="utf-8")


def needed(number: int) -> dict[str, int]:
    """By rank, what a dry run of the small model took with fragments."""
    rows = re.findall(r" (\d+) +\d+  completed +\S+ +(\S+)", walked(is_small=True).ended[number].stdout)
    return {rank: parse_bytes(size) for rank, size in rows}


def test_it_goes_from_a_published_yaml_through_a_layout_to_a_plan_that_is_written() -> None:
    words = "check", "dryrun", "check", "dryrun", "whatif", "plan", "check", "dryrun"
    assert tuple(command.split()[1] for command, _ in BLOCKS) == words
    assert [kind for kind, _ in STEPS if kind != "text"] == ["bash", "diff"]
    assert len(STEPS) == len(BLOCKS) + 2


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_with_a_small_model_each_command_ends_as_on_the_page(number: int) -> None:
    done, (_, shown) = walked(is_small=True).ended[number], BLOCKS[number]
    assert done.returncode == (": error: " in shown), done.stdout
    for rule in re.findall(r"error: .*\[([\w-]+)\]$", shown, re.MULTILINE):
        assert f"[{rule}]" in done.stdout


def test_the_plan_of_the_small_model_holds_where_the_layout_alone_did_not() -> None:
    published, laid_out, plan, planned = 1, 3, 5, 7
    budget = parse_bytes(OF_SMALL["15GB"])
    assert set(needed(published)) == {"0"}
    before, after = needed(laid_out), needed(planned)
    assert before["0"] <= budget < before["4"]
    assert after["4"] <= budget
    assert after["0"] == pytest.approx(before["0"], rel=0.01), "a stage that fits is left as it is"
    done = walked(is_small=True)
    assert re.findall(r"^ +(\d) .*  (yes|no)$", done.ended[plan].stdout, re.MULTILINE) == [("0", "yes"), ("4", "yes")]
    recompute = yaml.safe_load(done.yaml.read_text(encoding="utf-8"))["recompute"]
    lists = [recompute.get("full_recompute_layer", []), *recompute.get("select_module", {}).values()]
    layers = {int(layer) for listed in lists for one in listed for layer in one.split("-")}
    assert layers
    assert layers <= set(SECOND_STAGE)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_with_the_published_model_each_command_prints_what_the_page_shows(number: int) -> None:
    printed, (command, shown) = walked(is_small=False).ended[number].stdout, BLOCKS[number]
    assert page.is_like(shown, printed) if " dryrun " in command else page.is_part(shown, printed), printed
