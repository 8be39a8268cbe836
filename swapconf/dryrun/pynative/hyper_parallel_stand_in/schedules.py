"""STAGES + MICRO-BATCHES -> ORDER in which a rank of a pipeline computes, sends and receives.

Source: hyper_parallel of 2026, core/pipeline_parallel/scheduler.py, which orders what is sent so that no two ranks wait
for each other; without overlapping of passes and of transfers.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class Act(enum.Enum):
    FORWARD = "forward"
    BACKWARD = "backward"
    SEND_OUTPUT = "send output"
    RECEIVE_INPUT = "receive input"
    SEND_GRADIENT = "send gradient"
    RECEIVE_GRADIENT = "receive gradient"


@dataclass(frozen=True, slots=True)
class Step:
    """``stage``: of all stages of the model, of which a rank may have several; ``micro``: the micro-batch."""

    act: Act
    stage: int
    micro: int


def all_forward_first(stage: int, stages: int, micros: int) -> list[Step]:
    """GPipe."""
    return [
        *(step for micro in range(micros) for step in _forward(stage, stages, micro)),
        *(step for micro in range(micros) for step in _backward(stage, stages, micro)),
    ]


def _forward(stage: int, stages: int, micro: int) -> Iterator[Step]:
    if stage:
        yield Step(Act.RECEIVE_INPUT, stage, micro)
    yield Step(Act.FORWARD, stage, micro)
    if stage < stages - 1:
        yield Step(Act.SEND_OUTPUT, stage, micro)


def _backward(stage: int, stages: int, micro: int) -> Iterator[Step]:
    if stage < stages - 1:
        yield Step(Act.RECEIVE_GRADIENT, stage, micro)
    yield Step(Act.BACKWARD, stage, micro)
    if stage:
        yield Step(Act.SEND_GRADIENT, stage, micro)


def one_forward_one_backward(stage: int, stages: int, micros: int) -> list[Step]:
    """1F1B. Odd stages send an output after they have received the next input, even ones before."""
    first = min(stages - stage, micros)
    is_short, is_last = stages - stage > micros, stage == stages - 1
    order: list[Step] = []
    for micro in range(first):
        if stage:
            order.append(Step(Act.RECEIVE_INPUT, stage, micro))
        if stage % 2 and micro:
            order.append(Step(Act.SEND_OUTPUT, stage, micro - 1))
        order.append(Step(Act.FORWARD, stage, micro))
        if stage % 2 == 0 and micro < first - 1:
            order.append(Step(Act.SEND_OUTPUT, stage, micro))
    if is_short:
        order.append(Step(Act.SEND_OUTPUT, stage, first - 1))
    for micro in range(micros):
        following = first + micro
        if not is_last:
            order.append(Step(Act.RECEIVE_GRADIENT, stage, micro))
            if following <= micros and not is_short:
                order.append(Step(Act.SEND_OUTPUT, stage, following - 1))
        order.append(Step(Act.BACKWARD, stage, micro))
        if stage:
            order.append(Step(Act.SEND_GRADIENT, stage, micro))
        if following < micros:
            if stage:
                order.append(Step(Act.RECEIVE_INPUT, stage, following))
            order.append(Step(Act.FORWARD, stage, following))
    return order


def interleaved(rank: int, ranks: int, chunks: int, micros: int) -> list[Step]:
    """1F1B of several stages a rank, which are ``ranks`` apart."""
    orders = [_computing(one, ranks, chunks, micros) for one in range(ranks)]
    return _with_transfers(orders, ranks * chunks)[rank]


def _rounds(ranks: int, micros: int) -> list[int]:
    """Micro-batches that run through one stage before those of the next one do."""
    if micros < ranks:
        return [micros]
    number = micros // ranks
    more, extra = divmod(micros % ranks, number)
    return [ranks + more + (index < extra) for index in range(number)]


def _computing(rank: int, ranks: int, chunks: int, micros: int) -> list[Step | None]:
    """What a rank computes, by moments; None where it waits."""
    rounds = _rounds(ranks, micros)
    first = min((chunks - 1) * rounds[0] + 2 * (ranks - 1 - rank), micros * chunks)
    waits = max(ranks - micros, 0)  # of a micro-batch that would follow, and there is none
    chunk_of = [chunk for size in rounds for chunk in range(chunks) for _ in range(size)]
    done: Counter[tuple[Act, int]] = Counter()

    def step(act: Act, index: int) -> Step:
        chunk = chunk_of[index] if act is Act.FORWARD else chunks - 1 - chunk_of[index]
        stage = chunk * ranks + rank
        done[act, stage] += 1
        return Step(act, stage, done[act, stage] - 1)

    order: list[Step | None] = [None] * rank
    for index in range(first):
        ahead = step(Act.FORWARD, index)
        order.append(ahead)
        if waits and ahead.micro == micros - 1 and (index < first - 1 or rank == ranks - 1):
            order += [None] * waits
    order += [None] * (max(0, 2 * (ranks - rank - 1) - micros) + ranks - 1 - rank)
    for index in range(chunks * micros - first):
        order.append(step(Act.FORWARD, first + index))
        back = step(Act.BACKWARD, index)
        order.append(back)
        if waits and back.micro == micros - 1 and rank == ranks - 1:
            order += [None] * (2 * waits)
    for index in range(chunks * micros - first, chunks * micros):
        back = step(Act.BACKWARD, index)
        order += [None, back]
        if waits and back.micro == micros - 1:
            order += [None] * (2 * waits)
    return order


def _with_transfers(orders: Sequence[Sequence[Step | None]], stages: int) -> list[list[Step]]:
    """Of all ranks, with what they send when a step is done and what others receive of it, even ranks first."""
    ranks = len(orders)
    made: list[list[Step]] = [[] for _ in orders]
    for moment in range(max(map(len, orders))):
        now = {rank: order[moment] for rank, order in enumerate(orders) if moment < len(order)}
        for rank, step in now.items():
            if step is not None:
                made[rank].append(step)
        for rank in (*range(0, ranks, 2), *range(1, ranks, 2)):
            step = now.get(rank)
            if step is not None:
                _transfer(step, rank, ranks, stages, made)
    return made


def _transfer(step: Step, rank: int, ranks: int, stages: int, made: Sequence[list[Step]]) -> None:
    is_forward = step.act is Act.FORWARD
    other = step.stage + (1 if is_forward else -1)
    if 0 <= other < stages:
        sends, receives = (
            (Act.SEND_OUTPUT, Act.RECEIVE_INPUT) if is_forward else (Act.SEND_GRADIENT, Act.RECEIVE_GRADIENT)
        )
        made[rank].append(Step(sends, step.stage, step.micro))
        made[other % ranks].append(Step(receives, other, step.micro))
