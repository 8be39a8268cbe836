"""The messages that are known: what MindSpore, torch_npu and CANN print when memory runs out. Of other ends:
`endings.py`.

A form of MindSpore 2.9.0 stands in the library of its wheel that `source` names, and in that of 2.10.0; "and earlier":
public sources of 2.x have the same. All others were read in public reports. Figures with M and G are MiB and GiB.
"""

from __future__ import annotations

from swapconf.postmortem.message import Framework, Memory, Message, Says

_RES = "libmindspore_ascend_res_manager.so of 2.9.0"
_POOL = "libmindspore_memory_pool.so of 2.9.0"
_BACKEND = "libmindspore_ms_backend.so, libmindspore_ge_backend.so of 2.9.0"
_PYNATIVE = "libmindspore_pynative_utils.so of 2.9.0"
_HARDWARE = "libmindspore_hardware_abstract.so of 2.9.0"


def _mindspore(name: str, says: Says, form: str, versions: str, source: str, memory: Memory = Memory.DEVICE) -> Message:
    return _message(Framework.MINDSPORE, name, says, form, versions, source, memory)


def _cann(name: str, form: str, source: str, memory: Memory = Memory.DEVICE, says: Says = Says.FAILED) -> Message:
    return _message(Framework.CANN, name, says, form, "reports of 2024 to 2026", source, memory)


def _torch(name: str, form: str, source: str, memory: Memory = Memory.DEVICE) -> Message:
    return _message(Framework.TORCH_NPU, name, Says.FAILED, form, "reports of 2024 to 2026", source, memory)


def _message(
    framework: Framework, name: str, says: Says, form: str, versions: str, source: str, memory: Memory
) -> Message:
    return Message(
        framework=framework, name=name, says=says, form=form, versions=versions, source=source, memory=memory
    )


_MINDSPORE_FAILED = (
    _mindspore(
        "kernel",
        Says.FAILED,
        "evice(id:{device:id}) memory isn't enough and alloc failed[[ in output actor]], kernel name: {kernel:text}, "
        "alloc size: {tensor:bytes}",
        "2.9.0 and earlier",
        f"{_BACKEND}; {_PYNATIVE}",
    ),
    _mindspore(
        "kernel-without-device",
        Says.FAILED,
        "emory isn't enough and alloc failed[[ in output actor]], kernel name: {kernel:text}, "
        "alloc size: {tensor:bytes}",
        "2.9.0 and earlier",
        _BACKEND,
    ),
    _mindspore(
        "no-kernel",
        Says.FAILED,
        "evice(id:{device:id}) memory isn't enough and alloc failed, alloc size: {tensor:bytes}",
        "2.9.0",
        "libmindspore_backend_common.so of 2.9.0",
    ),
    _mindspore(
        "no-figure", Says.FAILED, "evice(id:{device:id}) memory isn't enough and alloc failed", "2.9.0", _BACKEND
    ),
    _mindspore(
        "above-limit",
        Says.FAILED,
        "TotalUsedMemStatistics : {in_use:bytes}[[ plus TotalUsedByEventMemStatistics : {by_event:bytes} and]]"
        " plus alloc size : {asked:bytes} is more than total mem size : {limit:bytes}",
        "2.9.0 and earlier",
        _POOL,
    ),
    _mindspore("static", Says.FAILED, "ut of Memory!!! Request memory size: {tensor:bytes}", "2.9.0 and earlier", _RES),
    _mindspore(
        "total",
        Says.FAILED,
        "emory!!! total[{limit:bytes}]{:gap}(dynamic[{planned:bytes}]{:gap}[{pool_total:bytes}]){:gap}malloc[[ ]]"
        "[{asked:bytes}] failed",
        "1.x",
        "the FAQ of MindSpore's documentation",
    ),
    _mindspore(
        "device",
        Says.FAILED,
        "device memory failed, size[{device_asked:bytes}], ret[{:bytes}][[, Device {device:id}]]"
        "[[ Available {:word} size:{device_total:bytes} free size:{device_free:bytes}]]",
        "2.9.0 and earlier",
        _RES,
    ),
    _mindspore(
        "somas", Says.TRIED, "allocate somas whole block memory failed, alloc size: {asked:bytes}", "2.9.0", _BACKEND
    ),
    _mindspore(
        "maybe-device",
        Says.FAILED,
        "maybe device memory(device id:{device:id}) isn't enough. Allocate size: {tensor:bytes}",
        "2.9.0",
        _BACKEND,
    ),
    _mindspore(
        "pynative-workspace", Says.FAILED, "orkspace memory failed, alloc size:[[ ]]{tensor:bytes}", "2.9.0", _PYNATIVE
    ),
    _mindspore(
        "pynative-tensor",
        Says.FAILED,
        "Allocate device memory failed, alloc size:[[ ]]{tensor:bytes}",
        "2.9.0",
        _PYNATIVE,
    ),
    _mindspore(
        "pynative-node",
        Says.FAILED,
        "Malloc for kernel {:word} failed, Memory isn't enough, node:[[ ]]{kernel:name}",
        "2.9.0",
        _PYNATIVE,
    ),
    _mindspore(
        "graph-engine",
        Says.FAILED,
        "Out of memory, Alloc GE memory failed, size: {device_asked:bytes}",
        "2.9.0",
        "libmindspore_ge_backend.so of 2.9.0",
    ),
    _mindspore(
        "feature-memory",
        Says.FAILED,
        "AllocFeatureMemory error, memory not enough, memory size: {device_asked:bytes}",
        "2.9.0",
        "libmindspore_ge_backend.so of 2.9.0",
    ),
    _mindspore("physical", Says.FAILED, "Malloc physical memory failed, return code {:bytes}", "2.9.0", _RES),
    _mindspore(
        "setting-too-high",
        Says.FAILED,
        "Free Device Memory Size is {device_free:size}, max_device_memory should be in range (0-",
        "2.9.0",
        _RES,
    ),
    _mindspore("pinned", Says.FAILED, "Allocate pin memory failed, size: {asked:bytes}", "2.9.0", _RES, Memory.HOST),
    _mindspore("pinned-tensor", Says.FAILED, "Tensor.pin_memory allocate memory failed", "2.9.0", _RES, Memory.HOST),
    _mindspore("pinned-pool", Says.FAILED, "Malloc memory failed.", "2.9.0", f"{_RES}; {_HARDWARE}", Memory.HOST),
    _mindspore(
        "data-queue",
        Says.FAILED,
        "HostAlloc failed, ret[{:bytes}], out of memory",
        "1.5",
        "mindspore-ai/mindspore issue 172",
        Memory.HOST,
    ),
)

_MINDSPORE_TRIED = (
    _mindspore(
        "no-room",
        Says.TRIED,
        "Memory not enough: current free memory size[{room:bytes}] is smaller than required size[{asked:bytes}]",
        "2.9.0 and earlier",
        _POOL,
    ),
    _mindspore(
        "less-than-asked",
        Says.TRIED,
        "Memory not enough: alloc size[{device_given:bytes}] is smaller than required size[{asked:bytes}]",
        "2.9.0 and earlier",
        _POOL,
    ),
    _mindspore(
        "no-room-ascend",
        Says.TRIED,
        "device memory is not enough, the free memory size is {room:bytes}, but the alloc size is {asked:bytes}",
        "2.9.0 and earlier",
        _RES,
    ),
)

_MINDSPORE_STATE = (
    _mindspore("device-size", Says.STATE, "Device {:word} memory size: {device_total:size}", "2.9.0 and earlier", _RES),
    _mindspore("pool-limit", Says.STATE, "MindSpore Used memory size: {limit:size}", "2.9.0 and earlier", _RES),
    _mindspore(
        "used-peak",
        Says.STATE,
        "Used peak memory usage (without fragments): {used_peak:size}",
        "2.9.0 and earlier",
        _RES,
    ),
    _mindspore(
        "mapped-peak",
        Says.STATE,
        "Actual peak memory usage (with fragments): {mapped_peak:size}",
        "2.9.0 and earlier",
        _RES,
    ),
    _mindspore(
        "pool-total",
        Says.STATE,
        "dynamic memory pool total size is[[:]] {pool_total:size}, total used size is {in_use:size}, used peak size is "
        "{used_peak:size}",
        "2.9.0 and earlier",
        _RES,
    ),
    _mindspore(
        "pool-sums",
        Says.STATE,
        "dynamic memory pool total allocated mem:{pool_total:size}, peak used mem:{used_peak:size}{:gap}in used "
        "mem:{in_use:size}{:gap}total idle mem:{idle:size}",
        "2.9.0 and earlier",
        _POOL,
    ),
    _mindspore("eager-free", Says.STATE, "Total eager free memory : {eager_free:bytes}", "2.9.0", _POOL),
    _mindspore(
        "limits",
        Says.STATE,
        " size for Other Components(HCCL/rts/etc.):{reserved_others:size}{:gap}User define MindSpore "
        "{:word} Size:{user_limit:size}, MindSpore Used {:word} Size:{limit:size}",
        "2.9.0 and earlier",
        _RES,
    ),
)

_TORCH_STATE = (
    Message(
        framework=Framework.TORCH_NPU,
        name="swift",
        says=Says.STATE,
        form="'memory(GiB)': {summed_peak:gib}",
        versions="4.x of ms-swift",
        source="modelscope/ms-swift issue 9801: of all cards of a process together",
    ),
    Message(
        framework=Framework.TORCH_NPU,
        name="pta",
        says=Says.STATE,
        form="PTA call acl api failed",
        versions="reports of 2024 to 2026",
        source="hiyouga/LlamaFactory issue 5322: whose call of CANN it was",
    ),
)

_TORCH = (
    _torch(
        "npu",
        "NPU out of memory. Tried to allocate {tensor:size} (NPU {device:id}; {device_total:size} total capacity; "
        "{in_use:size} already allocated; [[{:size} current active; ]]{device_free:size} free; "
        "[[{limit:size} allowed; ]]{pool_total:size} reserved in total",
        "vllm-project/vllm-ascend issue 19",
    ),
    _torch(
        "npu-in-short",
        "NPU out of memory. Tried to allocate {tensor:size}[[ (NPU {device:id}; {device_total:size} total capacity]]"
        "[[; {in_use:size} already allocated]]",
        "vllm-project/vllm-omni issue 1199",
    ),
    _torch(
        "npu-beyond",
        "NPU out of memory. Tried to allocate {tensor:beyond} memory",
        "flashserve/flash-linear-attention-npu issue 149",
    ),
    _torch(
        "overflow",
        "torage size calculation overflowed with sizes={shape:line}",
        "c10/core/StorageImpl of PyTorch; huggingface/accelerate issue 2868",
    ),
    _torch(
        "negative",
        "rying to create tensor with negative dimension {shape:line}",
        "c10/core of PyTorch; meta-pytorch/torchrec issue 1008",
    ),
    _torch("npu-call", "call {call:word} failed, error code is 207001", "vllm-project/vllm-ascend issue 3141"),
    _torch(
        "npu-host",
        "aclrtMallocHost{:gap}, error code is 207001",
        "torch_npu/csrc/core/npu/CachingHostAllocator.cpp",
        Memory.HOST,
    ),
)

_CANN = (
    _cann(
        "EL0004",
        "EL0004{:gap}Failed to allocate memory[[ requested by {module:word} module]]",
        "PKU-YuanGroup/Helios issue 62, vllm-project/vllm-ascend issue 4026",
    ),
    _cann(
        "rtMalloc",
        "Malloc fail, purpose: {purpose:text}, type = {:bytes}, size:{device_asked:bytes}, device_id:{device:id}",
        "PKU-YuanGroup/Helios issue 62",
    ),
    _cann(
        "resource",
        "Failed to allocate resource[{:word}] with info [size:{device_asked:bytes}]. Reason: Memory resources are "
        "exhausted",
        "vllm-project/vllm-ascend issue 3141",
    ),
    _cann(
        "hal-first",
        "halMemAlloc failed: device_id={device:id}, size={device_asked:bytes}",
        "MindSpore's documentation, EE9999: HBM allocation failure",
    ),
    _cann(
        "hal",
        "halMemAlloc failed:size={device_asked:bytes}(bytes)[[, type={:bytes}, moduleId={module:module}]]{:gap}"
        "drvRetCode=6[[{:gap}device_id{:gap}{device:id}]]",
        "vllm-project/vllm-ascend documentation of Mooncake; hicann/hixl, questions about links",
    ),
    _cann(
        "hal-call",
        "halMemAlloc failed, drvRetCode=6, size={device_asked:bytes}(bytes)"
        "[[, type={:bytes}, moduleId={module:module}]][[{:gap}drvDevId={device:id}]]",
        "hicann/runtime, DevMemAllocHugePageManaged of CANN 9",
    ),
    _cann(
        "hal-host",
        "HostMemAlloc:{:gap}halMemAlloc failed{:gap}size={asked:bytes}(bytes)",
        "hicann/runtime, HostMemAlloc",
        Memory.HOST,
    ),
    _cann(
        "hal-physical",
        "halMemCreate failed{:gap}drvRetCode=6[[, size={device_asked:bytes}(bytes)]]",
        "CANN 8.5, maintenance reference, troubleshooting_0050; hicann/runtime, MallocPhysical",
    ),
    _cann(
        "driver-create",
        "Mem create failed. (ret=6; size={device_asked:bytes}; side=1; devid={device:id})",
        "CANN 8.5, maintenance reference, troubleshooting_0050",
    ),
    _cann(
        "driver-create-host",
        "Mem create failed. (ret=6; size={asked:bytes}; side=0;",
        "CANN 8.5, maintenance reference, troubleshooting_0050; MEM_HOST_SIDE of ascend_hal.h",
        Memory.HOST,
    ),
    _cann(
        "hccl",
        "failed, [[Reason: out of memory, ]]return[207001], para: devPtrAddr[{:name}], size[{device_asked:bytes}",
        "public sources of HCCL, hrtMalloc",
    ),
    _cann(
        "graph-engine-malloc",
        "[Malloc][Memory] failed, rt_ret:207001, [[device_id:{device:id}, ]]size{:gap}{device_asked:bytes}",
        "device_allocator.cc of CANN's graph engine",
    ),
    _cann(
        "host", "MallocHost execution failed, reason=driver error:out of memory", "error_message_manage.cc", Memory.HOST
    ),
    _cann("driver", "failed, reason=driver error:out of memory", "error_message_manage.cc"),
    _cann(
        "host-call",
        "MallocHost execute failed, reason=[driver error:out of memory",
        "error_message_manage.cc of CANN 8",
        Memory.HOST,
    ),
    _cann(
        "call-launch", "Launch execute failed, reason=[driver error:out of memory", "hiyouga/LlamaFactory issue 5322"
    ),
    _cann("op-type", "Execute op failed. op type = {call:word}", "wangshuai09/Notebook, QA/Error.md", says=Says.STATE),
    _cann(
        "call", "failed, reason=[driver error:out of memory", "CANN 8.5, maintenance reference, troubleshooting_0050"
    ),
    _cann(
        "code",
        "ErrCode=207001, desc=[driver error:out of memory",
        "CANN 8.5, maintenance reference, troubleshooting_0050",
    ),
    _cann(
        "acl",
        "alloc {:word} memory failed, runtime result = 207001",
        "CANN 8.5, maintenance reference, troubleshooting_0050; vllm-project/vllm-ascend issue 1993",
    ),
    _cann(
        "acl-host",
        "alloc host memory failed, runtime result = 207001",
        "hicann/runtime, aclrtMallocHost of src/acl/aclrt_impl/memory.cpp",
        Memory.HOST,
    ),
    _cann("memory-pool", "allocate device memory failed.[FUNC:Init]", "hw-native-sys/PTOAS pull request 341"),
    _cann("applied", "Failed to apply for memory", "vllm-project/vllm-ascend issue 3141"),
    _cann("host-register", "aclrtHostRegister errcode 207001", "LMCache/LMCache-Ascend issue 242", Memory.HOST),
)

_HELD = (
    _cann(
        "held",
        "_mem_stats_show{:gap}]{held_in:word} dev{held_on:id} {:gap}module_name={held_by:word}{:gap}"
        "current_alloced_size={held:bytes}",
        "CANN 8.5, maintenance reference, troubleshooting_0055; PaddlePaddle/PaddleCustomDevice issue 690",
        says=Says.HELD,
    ),
    _cann(
        "held-on-host",
        "_mem_stats_show{:gap}]HOST_MEM {:gap}module_name={held_by:word}{:gap}current_alloced_size={held:bytes}",
        "CANN 8.5, maintenance reference, troubleshooting_0055",
        says=Says.HELD,
    ),
)

MESSAGES = (*_MINDSPORE_FAILED, *_MINDSPORE_TRIED, *_MINDSPORE_STATE, *_TORCH_STATE, *_TORCH, *_CANN, *_HELD)

# one of them stands in each message
ANCHORS = (
    b"emory",
    b"207001",
    b"lloc fail",
    b"TotalUsedMem",
    b"MallocHost",
    b"Other Components",
    b"reate failed",
    b"_mem_stats_show",
    b"orage size calc",
    b"tensor with neg",
    b"xecute op fail",
    b"PTA call acl",
)
