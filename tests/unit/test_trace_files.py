"""The golden traces in tests/traces, as MindSpore 2.9.0 left them (the stacks of Python frames are cut out)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.files import table_lines
from swapconf.timing.program import step_tasks
from swapconf.trace import execute_order, memory_block, task_table, trace_folder, tracker_graph
from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.trace import Kernel, Task, Tensor, Trace
from tests.helpers import NAMES, TRACES, golden


def expected(name: str, pattern: str) -> int:
    found = re.search(pattern, (TRACES / name / "expected.txt").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def test_there_are_five() -> None:
    assert len(NAMES) == 5


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_is_that_of_mindspore_to_the_byte(name: str) -> None:
    assert golden(name).used_peak_bytes == expected(name, r"max_alloc (\d+)")


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_with_fragments_is_the_one_that_mindspore_prints(name: str) -> None:
    assert golden(name).with_fragments_peak_bytes >> 20 == expected(name, r"\(with fragments\): (\d+)M")


@pytest.mark.parametrize(
    ("name", "num_blocks", "num_kernels", "num_tasks", "copies", "host_bytes"),
    [
        ("llama_l2_layerswap_n1", 932, 1605, 1948, 50, 70_337_536),
        ("llama_l2_none", 830, 897, 1138, 0, 0),
        ("llama_l2_recompute", 908, 993, 1244, 0, 0),
        ("llama_l3_ffnnorm_swap_ffn_recompute", 1154, 1319, 1645, 4, 4_243_456),
        ("llama_l3_flash_n1", 1163, 1420, 1762, 12, 3_933_696),
    ],
)
def test_counts(name: str, num_blocks: int, num_kernels: int, num_tasks: int, copies: int, host_bytes: int) -> None:
    trace = golden(name)
    assert (len(trace.blocks), len(trace.kernels), len(trace.tasks)) == (num_blocks, num_kernels, num_tasks)
    assert sum(kernel.copies_to_host for kernel in trace.kernels) == copies
    assert sum(kernel.primitive == "MoveTo" for kernel in trace.kernels) == 2 * copies  # there and back
    assert sum(block.on_host for block in trace.blocks) == copies
    assert trace.host_peak_bytes == host_bytes


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_one_step_is_its_own_step(name: str) -> None:
    assert golden(name).num_steps == 1
    assert golden(name).step == golden(name).kernels
    assert not golden(name).is_planned


def test_kinds_of_blocks() -> None:
    kinds = Counter(block.kind for block in golden("llama_l2_layerswap_n1").blocks if not block.on_host)
    assert kinds == {"Kernel": 676, "ConstantValue": 138, "Weight": 65, "PyNativeInput": 3}


def test_a_block() -> None:
    block = golden("llama_l3_flash_n1").blocks[3]
    assert block == Block(
        start=8,
        end=None,
        address=0x800E2797E997,
        size_bytes=33280,
        stream=0,
        pool="DefaultEnhancedAscendMemoryPool",
        kind="ConstantValue",
        task=6,
        task_name="SyncTensorData",
        node="Default/data-0",
        users=(652, 664, 806, 818, 957, 969, 1540, 1554, 1859, 1873, 2171, 2187),
        is_persistent=True,
        used_bytes=34816,
        pool_peak_bytes=34816,
    )


def test_a_kernel() -> None:
    kernel = golden("llama_l3_flash_n1").kernels[71]
    scope = (
        "Default/network-LlamaForCausalLM/model-LlamaModel/layers-CellList/0-LLamaDecodeLayer/"
        "attention-LLamaAttention/flash_attention-FlashAttention"
    )
    assert kernel == Kernel(
        index=72,
        name=f"{scope}/MoveTo-op3",
        stream=3,
        graph="kernel_graph0",
        primitive="MoveTo",
        output="CNode_150",
        inputs=("CNode_151", "ValueNode<StringImm> CPU", "ValueNode<BoolImm> false"),
    )
    assert kernel.scope == scope
    assert kernel.copies_to_host
    first = golden("llama_l3_flash_n1").kernels[0]
    assert (first.primitive, first.event, first.is_event) == ("StreamSend", "72", True)


def test_a_task() -> None:
    tasks = {task.event: task for task in golden("llama_l3_flash_n1").tasks}
    copy = tasks[687]
    assert (copy.inputs, copy.outputs, copy.attributes) == ((680, 104, 38), (), (("stream_id", "3"),))
    assert copy.input_tensors == (Tensor("Float32", (1, 1, 4096, 8)), Tensor("String", ()), Tensor("Bool", ()))
    assert copy.primitive == "MoveTo"
    assert tasks[0] == Task(
        event=0,
        name="Reshape",
        inputs=(2,),
        outputs=(2,),
        attributes=(("stream_id", "0"),),
        input_tensors=(Tensor("BFloat16", (1,)),),
        output_tensors=(Tensor("BFloat16", (1, 1)),),
    )
    groups = [dict(task.attributes) for task in tasks.values() if task.primitive == "AllReduce"]
    assert groups[0]["comm_rank"] == "0 1 2 3"


@pytest.mark.parametrize("name", NAMES)
def test_a_block_is_as_large_as_its_tensor_with_a_tail(name: str) -> None:
    """Device blocks of outputs hold the tensor and 32 bytes more, in steps of 512."""
    sizes = {block.start: block.size_bytes for block in golden(name).blocks if block.kind == "Kernel"}
    checked = 0
    for task in golden(name).tasks:
        for tensor, output in zip(task.outputs, task.output_tensors, strict=False):
            if tensor in sizes and tensor not in task.inputs and output.size_bytes is not None:
                assert sizes.pop(tensor) == -(-(output.size_bytes + 32) // 512) * 512
                checked += 1
    assert checked > 300


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("BFloat16", (4096, 512), 4096 * 512 * 2),
        ("Float32", (), 4),
        ("Bool", (2, 3), 6),
        ("Int4", (3,), 2),
        ("Float8E4M3FN", (5,), 5),
        ("Complex64", (2,), 16),
        ("String", (), 0),
        ("Int64", (0,), 0),
        ("Int32", (-1, 2), None),
        ("Object", (1,), None),
    ],
)
def test_size_of_a_tensor(dtype: str, shape: tuple[int, ...], size: int | None) -> None:
    assert Tensor(dtype, shape).size_bytes == size


def test_peak_of_nothing() -> None:
    trace = Trace(folder="", rank=0, blocks=Blocks.of(()), kernels=(), tasks=())
    assert (trace.used_peak_bytes, trace.host_peak_bytes, trace.with_fragments_peak_bytes) == (0, 0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_the_rows(name: str) -> None:
    blocks = golden(name).blocks
    rows = list(blocks)
    assert [blocks[place] for place in range(len(blocks))] == rows
    assert blocks[-1] == rows[-1]
    assert blocks[5:20:3] == tuple(rows[5:20:3])
    assert list(Blocks.of(rows)) == rows
    assert blocks.on_host.tolist() == [row.on_host for row in rows]
    assert blocks.size_bytes.sum() == sum(row.size_bytes for row in rows)
    with pytest.raises(IndexError):
        blocks[len(rows)]


@pytest.mark.parametrize("on_host", [False, True])
def test_peak_of_columns_is_that_of_rows(on_host: bool) -> None:
    blocks = golden("llama_l2_layerswap_n1").blocks
    rows = [row for row in blocks if row.on_host == on_host]
    moments = {row.start for row in rows}
    assert blocks.peak_bytes(on_host=on_host) == max(
        sum(row.size_bytes for row in rows if row.start <= now and (row.end is None or row.end > now))
        for now in moments
    )


# --- forms that the golden traces do not have -----------------------------------------------------------------------

FRESH = """\
start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,actual_used_memory,actual_peak_memory,\
file_name,line_num,type,producer_task,task_name,node_name,graph_name,user_tasks,last_user_task,python_stack,\
is_persistent,is_small,
2,9223372036854775807,0x80,0,Pool,512,512,512,a.cc,393,PyNativeInput,0,PyNative,Reshape,,{0},0,\
File:/data/a,b/run.py;Line:41|,1,0,
4,9,0x280,0,Pool,512,1024,1024,a.cc,393,Kernel,3,Actor,MatMul,,{},,,0,0,
"""

ORDER = """\
index,node_name,logic_id,stream_id,node_info,event_id,group
"1","Default/Concat-op1","4294967295","0","@kernel_graph0:tensor{[0]: ValueNode<Primitive> PrimFunc_Concat, [1]: a, \
[2]: ValueNode<Tensor> Tensor(shape=[1, 1], dtype=Int32, value=
<Ascend>), [3]: ValueNode<StringImm> say "hi", twice}","",""
"2","Default/AllReduce-op0","4294967295","2","@kernel_graph0:out{[0]: ValueNode<Primitive> AllReduce, [1]: tensor}",\
"7","2-1645"
"3","Default/Concat-op1","4294967295","0","@kernel_graph1:tensor{[0]: ValueNode<Primitive> Concat}","",""
"4","Default/Concat-op1","4294967295","0","@kernel_graph0:tensor{[0]: ValueNode<Primitive> Concat}","",""
"""

GRAPH = """\
(%2) = Reshape(%2), task_info: 0, attrs {stream_id=0}\x20
    # File:/data/a(b) = c/run.py;Line:41;Function:<module>|
    (BFloat16:[1, 1]{strdes=[1, 1],offset=0}) <- (BFloat16:[1])

() = Default/RecordEvent(), task_info: 3, attrs {event=72;stream_id=0}\x20
    () <- ()
"""


TASKS = """\
time_stamp,task_name,node_name,graph_name,file_name,line_num,python_stack,
0,PyNative,Reshape,,mindspore/ccsrc/pynative/utils/pyboost/pyboost_utils.cc,926,File:/data/a,b/run.py;Line:41|,
3,12_Default/MatMul-op0,Default/MatMul-op0,kernel_graph0,mindspore/ccsrc/kernel_runner.cc,140,,
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_stacks_with_commas(tmp_path: Path) -> None:
    first, second = memory_block.read(written(tmp_path, "memory_block.csv", FRESH))
    assert (first.kind, first.is_persistent, first.users) == ("PyNativeInput", True, (0,))
    assert (second.end, second.users, second.is_persistent, second.task) == (9, (), False, 3)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", memory_block.COLUMNS)
def test_any_column_may_be_the_last(tmp_path: Path, last: str, line_end: str) -> None:
    """With and without a comma behind it, and with no stack before it."""
    expected = list(memory_block.read(written(tmp_path, "memory_block.csv", FRESH)))
    names, *rows = (line.replace("/data/a,b", "/data").split(",") for line in FRESH.splitlines())
    order = [names.index(name) for name in (*(name for name in memory_block.COLUMNS if name != last), last)]
    for comma in ("", ","):
        text = "".join(",".join(row[place] for place in order) + comma + line_end for row in (names, *rows))
        assert list(memory_block.read(written(tmp_path, "memory_block.csv", text))) == expected


def test_rows_on_several_lines(tmp_path: Path) -> None:
    first, second, other, again = execute_order.read(written(tmp_path, "execute_order.csv", ORDER))
    assert first.inputs == (
        "a",
        "ValueNode<Tensor> Tensor(shape=[1, 1], dtype=Int32, value= <Ascend>)",
        'ValueNode<StringImm> say "hi", twice',
    )
    assert (second.primitive, second.event, second.group) == ("AllReduce", "7", "2-1645")
    trace = Trace(folder="", rank=0, blocks=Blocks.of(()), kernels=(first, second, other, again), tasks=())
    assert trace.step == (first, second, other)  # of another graph, so not the second step
    assert trace.num_steps == 1
    assert replace(trace, kernels=trace.kernels * 4).num_steps == 4


def test_stacks_in_the_graph(tmp_path: Path) -> None:
    first, second = tracker_graph.read(written(tmp_path, "tracker_graph.ir", GRAPH))
    assert first.output_tensors == (Tensor("BFloat16", (1, 1)),)
    assert dict(second.attributes) == {"event": "72", "stream_id": "0"}


def test_blocks_that_are_made_at_once_share_a_sum(tmp_path: Path) -> None:
    """As memory_optimize_level O1 does with the outputs of a graph."""
    head, rows = FRESH.splitlines()[0], []
    for start, used in ((2, 512), (4, 1536), (5, 1536), (9, 1024)):
        end = 7 if start == 4 else 2**63 - 1
        rows.append(f"{start},{end},0x0,0,Pool,{'0' if start == 9 else '512'},{used},2048,,1,Somas,,,,,{{}},,,0,0,")
    assert len(memory_block.read(written(tmp_path, "memory_block.csv", "\n".join([head, *rows, ""])))) == 4


def test_a_trace_without_graph(tmp_path: Path) -> None:
    """MindSpore puts the order into a folder of its own, and writes no graph with memory_optimize_level O1."""
    (tmp_path / "execute_order").mkdir()
    written(tmp_path, "memory_block.csv", FRESH)
    written(tmp_path / "execute_order", "execute_order.csv", ORDER)
    trace = trace_folder.read(tmp_path, rank=3)
    assert (trace.rank, len(trace.kernels), trace.tasks) == (3, 4, ())


def test_tasks(tmp_path: Path) -> None:
    table = task_table.read(written(tmp_path, "task.csv", TASKS))
    assert len(table) == 2
    assert table.event.tolist() == [0, 3]
    assert [table.actors[code] for code in table.actor] == ["PyNative", "12_Default/MatMul-op0"]
    assert [table.nodes[code] for code in table.node] == ["Reshape", "Default/MatMul-op0"]
    assert [table.graphs[code] for code in table.graph] == ["", "kernel_graph0"]


@pytest.mark.parametrize("chunk_bytes", [64, 700, 4096])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_chunks_end_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, line_end: bytes
) -> None:
    """Inside of a row, between a carriage return and its line feed, and many times in a row that is longer."""
    name = "llama_l2_layerswap_n1"
    path = tmp_path / "memory_block.csv"
    path.write_bytes((TRACES / name / "memory_block.csv").read_bytes().replace(b"\n", line_end))
    monkeypatch.setattr(table_lines, "CHUNK_BYTES", chunk_bytes)
    assert list(memory_block.read(path)) == list(golden(name).blocks)


def test_rows_given_by_hand_become_columns() -> None:
    rows = golden("llama_l2_none").blocks[:4]
    trace = Trace(
        folder="",
        rank=0,
        blocks=rows,  # type: ignore[arg-type]
        kernels=(),
        tasks=(),
    )
    assert tuple(trace.blocks) == rows
    assert trace.used_peak_bytes == sum(row.size_bytes for row in rows)


def test_of_a_missing_graph_only_what_is_known_is_told(tmp_path: Path) -> None:
    """Planned memory shows in the blocks; where it does not, the file is lost."""
    (tmp_path / "lost").mkdir()
    (tmp_path / "planned").mkdir()
    for name, blocks in (("lost", FRESH), ("planned", FRESH.replace(",Kernel,", ",Somas,"))):
        written(tmp_path / name, "memory_block.csv", blocks)
        written(tmp_path / name, "execute_order.csv", ORDER)
    lost, planned = (trace_folder.read(tmp_path / name, rank=0) for name in ("lost", "planned"))
    assert "tracker_graph.ir is missing" in lost.why_no_graph
    assert planned.is_planned
    assert "missing" not in planned.why_no_graph
    assert "planned the memory ahead" in planned.why_no_graph
    for trace in (lost, planned):
        with pytest.raises(ValueError, match="no graph"):
            step_tasks(trace)
