"""WORDS + STUDY -> EXPERT LOAD: ``even``, a factor, or a file with the tokens of each expert, held against the model.

A file is YAML or JSON, a mapping of experts to numbers, or CSV with lines such as ``0,1200``; the numbers may be counts
of tokens or any shares of them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from swapconf.config.config import Dialect
from swapconf.config.layout import EXPERTS
from swapconf.config.yaml_document import parse, read_text
from swapconf.dryrun.pynative.expert_load import EVEN, EVENLY, ExpertLoad
from swapconf.dryrun.rank_order import cluster_of
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

RULE = "expert-load"
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,12})?")
_EXPERT = re.compile(r"\d{1,6}")
_MOST_EXPERTS = 100_000
_CHOSEN = ("num_experts_per_tok", "moe_router_topk", "num_experts_chosen")  # of a token


def load_of(words: str | None, study: Study) -> ExpertLoad:
    """``words``: None where nothing was asked for. Raises SwapconfError for what is wrong in a file, and ValueError for
    what the model cannot have."""
    if words is None:
        return EVEN
    if study.config.dialect is not Dialect.PYNATIVE:
        raise ValueError(
            phrase(
                "--expert-load is of PyNative mode: in graph mode mindformers itself takes all experts for equally busy"
            )
        )
    experts = study.config.model.count(*EXPERTS)
    if experts is None:
        raise ValueError(phrase("--expert-load {words}: the YAML names no number of experts", words=words))
    load = _parsed(words)
    _check(load, words, experts, study)
    return load


def _parsed(words: str) -> ExpertLoad:
    if words == EVENLY:
        return EVEN
    if _NUMBER.fullmatch(words):
        return ExpertLoad(Fraction(words))
    if not Path(words).exists() and not Path(words).suffix:
        raise ValueError(
            phrase("--expert-load {words}: neither `even` nor a number from 1 on nor a file that is there", words=words)
        )
    return _of_file(words)


def _check(load: ExpertLoad, words: str, experts: int, study: Study) -> None:
    """No expert gets a token twice, and no rank more than there are."""
    ranks, chosen = cluster_of(study.document).expert_parallel, study.config.model.count(*_CHOSEN) or 1
    if load.shares:
        _check_shares(load, experts, chosen)
        return
    most = min(Fraction(experts, chosen), Fraction(ranks) if ranks > 1 else Fraction(experts))
    if not 1 <= load.factor <= most:
        raise ValueError(
            phrase(
                "--expert-load {words}: from 1, which is even, to {most:g}, as a token goes to {chosen} of {experts} "
                "experts on {ranks} ranks, and to none of them twice",
                words=words,
                most=float(most),
                chosen=chosen,
                experts=experts,
                ranks=ranks,
            )
        )


def _check_shares(load: ExpertLoad, experts: int, chosen: int) -> None:
    if len(load.shares) != experts:
        raise SwapconfError(
            [
                _wrong(
                    load.file,
                    0,
                    phrase("it has the tokens of {given} experts", given=len(load.shares)),
                    phrase("the model has {experts}: name each of 0 to {last}", experts=experts, last=experts - 1),
                )
            ]
        )
    whole = sum(load.shares)
    found = [
        _wrong(
            load.file,
            load.lines[expert],
            phrase("expert {expert} gets {part:.1%} of all that is sent", expert=expert, part=float(share / whole)),
            phrase(
                "a token goes to {chosen} different experts, so that one gets {most:.1%} at most",
                chosen=chosen,
                most=1 / chosen,
            ),
        )
        for expert, share in enumerate(load.shares)
        if share * chosen > whole
    ]
    if found:
        raise SwapconfError(found)


def _of_file(file: str) -> ExpertLoad:
    """All experts from 0 on, each once, in the order of their numbers."""
    text = read_text(file)
    table = _lines(text) if file.lower().endswith(".csv") else _entries(text, file)
    shares: dict[int, tuple[Fraction, int]] = {}
    found = []
    for line, expert, value in table:
        if not _EXPERT.fullmatch(expert) or int(expert) >= _MOST_EXPERTS:
            hint = phrase("write the number of an expert, from 0 on")
            found.append(_wrong(file, line, phrase("'{text}' is no expert", text=expert[:40]), hint))
        elif not _NUMBER.fullmatch(value):
            hint = phrase("write a count of tokens, or a share, from 0 on")
            found.append(_wrong(file, line, phrase("'{text}' is no number of tokens", text=value[:40]), hint))
        elif int(expert) in shares:
            hint = phrase("name each expert once")
            found.append(_wrong(file, line, phrase("expert {expert} is there twice", expert=int(expert)), hint))
        else:
            shares[int(expert)] = Fraction(value), line
    missing = next((expert for expert in range(len(shares)) if expert not in shares), None)
    if not found and missing is not None:
        found.append(
            _wrong(
                file,
                0,
                phrase("expert {expert} is not there", expert=missing),
                phrase("name each expert, from 0 on; one that gets nothing has 0"),
            )
        )
    if not found and not any(share for share, _ in shares.values()):
        found.append(_wrong(file, 0, phrase("no expert gets a token"), phrase("name the tokens of each expert")))
    if found:
        raise SwapconfError(found)
    order = [shares[expert] for expert in range(len(shares))]
    return ExpertLoad(shares=tuple(share for share, _ in order), file=file, lines=tuple(line for _, line in order))


def _entries(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    document = parse(text, file)
    errors = [finding for finding in document.findings if finding.severity is Severity.ERROR]
    if errors:
        raise SwapconfError(errors)
    for entry in document.root.entries.values():
        yield entry.line, entry.key, str(entry.value.text or entry.value.scalar)


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Of the first two columns; a first line without a number names them."""
    reader = csv.reader(text.splitlines())
    for row in reader:
        expert, tokens, *_ = (*(cell.strip() for cell in row), "", "")
        if any(row) and not (reader.line_num == 1 and not _EXPERT.fullmatch(expert)):
            yield reader.line_num, expert, tokens


def _wrong(file: str, line: int, message: str, hint: str) -> Finding:
    origin = Origin(file=file, line=line, column=1 if line else 0)
    return Finding(origin=origin, rule=RULE, severity=Severity.ERROR, message=message, hint=hint)
