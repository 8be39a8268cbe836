"""Whatever stands in the sections, in whatever form: what is written into them is read again, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.config.config import Config, Dialect
from swapconf.config.rewriting import asked
from swapconf.config.yaml_comments import comments
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_text import format_config
from swapconf.plan.written import MARK, write
from tests.laws.strategies import configs, patterns

MODEL = "model:  # the model\n  model_config: {num_layers: 4}\n"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Sections of any content, in lines or in braces, for a legacy or an mcore model, with comments all over."""
    before: Config = draw(configs(names=patterns))
    mcore = draw(st.booleans())
    text = format_config(replace(before, dialect=Dialect.MCORE if mcore else Dialect.LEGACY))
    if draw(st.booleans()):
        values = yaml.safe_load(text)
        text = "".join(f"{key}: {yaml.safe_dump(values[key], default_flow_style=True, width=9**9)}" for key in values)
        text = text.replace("\n...\n", "\n")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        place = draw(st.sampled_from(["none", "none", "behind", "above"]))
        indent = line[: len(line) - len(line.lstrip(" -"))].replace("-", " ")
        lines[number] = {
            "none": line,
            "behind": f"{line}\t # note {number}",
            "above": f"{indent}# note {number}\n{line}",
        }[place]
    text = "\n".join(lines) + "\n"
    if not mcore:
        text = text + MODEL if draw(st.booleans()) else MODEL + text
    if draw(st.booleans()):
        text = text.rstrip("\n")
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def said(text: str) -> Counter[str]:
    return Counter(comment.text.rstrip() for comment in comments(text) if MARK not in comment.text)


@settings(max_examples=60)
@given(texts(), configs(names=patterns))
def test_what_is_written_is_read_again_with_all_comments(text: str, wanted: Config) -> None:
    document = parse(text, "law.yaml")
    before, _ = from_document(document)
    made = replace(before, swap=wanted.swap, recompute=wanted.recompute)
    after = write(text, document, made, "for 54 GB")
    again = parse(after, "law.yaml")
    assert asked(from_document(again)[0]) == asked(made)
    assert said(after) == said(text)
    assert write(after, again, made, "for 54 GB") == after
    back = write(after, again, before, "as before")
    assert asked(from_document(parse(back, "law.yaml"))[0]) == asked(before)
    assert ("\r\n" in after) <= ("\r\n" in text)
    assert after.count(f"# {MARK}: for 54 GB") <= 1
