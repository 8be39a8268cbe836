"""ENDING -> ADVICE: what to look at after an end that is not memory, what helps most first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from swapconf.postmortem.ending import Ending
from swapconf.postmortem.families import Family
from swapconf.postmortem.message import Framework
from swapconf.postmortem.remedies import launch_blocking
from swapconf.words.phrases import phrase

_OUT_OF_RANGE = ("out of range", "mpu address", "read overflow", "write overflow")
_LESS_HOST_MEMORY = phrase(
    "where it was memory of the host: fewer processes that load data, and less swap, which pins memory of the host "
    "for each byte it moves (`swapconf plan train.yaml --host-budget 200GB`); recompute takes none"
)
_OTHER_LOGS = phrase(
    "look at the logs of all ranks, and give their folder to `swapconf oom`: the rank that began is one that failed in "
    "another way, or whose log ends without a word"
)


def advice(ending: Ending) -> tuple[str, ...]:
    return tuple(_OF[ending.family](ending))


def framework_of(ending: Ending) -> Framework | None:
    """Whose the run was, as far as the names of the messages tell."""
    names = set(ending.messages)
    if names & _OF_MINDSPORE or ending.process.component:
        return Framework.MINDSPORE
    return Framework.TORCH_NPU if names & _OF_TORCH else None


_OF_MINDSPORE = {"task", "task-infos", "launch", "launch-name", "launch-short", "dump-node", "sync-stream"}
_OF_TORCH = {"npu-function", "npu-old", "acl-stream", "aclnn"}


def _kernel(ending: Ending) -> Iterator[str]:
    told = f"{ending.word('reason')} {ending.word('detail')}".lower()
    if any(words in told for words in _OUT_OF_RANGE):
        yield phrase(
            "the kernel read or wrote outside of its tensors: compare the shapes, lengths and indices that it is given "
            "with what it allows (sequence lengths, position ids, tokens for each expert), custom operators first"
        )
    else:
        yield phrase("look at what the kernel is given: shapes, types and values; custom operators first")
    yield from launch_blocking(framework_of(ending))
    yield _plog(ending)


def _kernel_timeout(ending: Ending) -> Iterator[str]:
    yield phrase(
        "a kernel that runs on is mostly given a shape or a value for which it never ends, or waits for another core: "
        "custom operators and fused ones with communication first"
    )
    yield from launch_blocking(framework_of(ending))
    yield _plog(ending)


def _copy(ending: Ending) -> Iterator[str]:
    yield phrase(
        "an address was not there, or no longer: a tensor that was released while it was copied, or one of another "
        "process that had ended; look at what the copy reads and writes"
    )
    yield from launch_blocking(framework_of(ending))
    yield _plog(ending)


def _task(ending: Ending) -> Iterator[str]:
    yield from launch_blocking(framework_of(ending))
    yield _plog(ending)


def _plog(ending: Ending) -> str:
    if not ending.process.pid:
        return phrase("CANN's own log tells more: `grep -rn ERROR ~/ascend/log/debug/plog`")
    return phrase(
        "CANN's own log of the process tells more: `grep -n ERROR ~/ascend/log/debug/plog/plog-{pid}_*.log`",
        pid=ending.process.pid,
    )


def _device_memory(ending: Ending) -> Iterator[str]:
    yield phrase(
        "start again from the last checkpoint, without this device if it happens again; `npu-smi info -t ecc -i "
        "{device}` counts the errors, and what counts more of them has to be replaced",
        device=_device(ending),
    )


def _device_lost(ending: Ending) -> Iterator[str]:
    yield phrase("see whether the device is there, and healthy: `npu-smi info`; `dmesg -T | tail` tells of its driver")
    yield phrase("reset it, or have it looked at, before the run is started again on it")


def _device_busy(ending: Ending) -> Iterator[str]:
    yield phrase(
        "end the earlier process: `npu-smi info` and `ps -ef | grep python` show what is left of it; wait 10 s, start "
        "again"
    )


def _port(ending: Ending) -> Iterator[str]:
    yield phrase(
        "see who holds the port (`ss -lntp`) and end it, or choose another one (--master_port of the launcher)"
    )


def _link(ending: Ending) -> Iterator[str]:
    yield phrase(
        "see whether the process at the other end had ended before: then its end is the cause; give the folder of all "
        "logs to `swapconf oom`"
    )
    yield phrase(
        "else the network is: `hccn_tool -i {device} -link -g` and `hccn_tool -i {device} -net_health -g` at both "
        "ends, and `grep -rn 'error cqe' ~/ascend/log`",
        device=_device(ending),
    )


def _wait(ending: Ending) -> Iterator[str]:
    yield _OTHER_LOGS
    yield phrase(
        "where all ranks waited, and no link failed: the same number of batches and the same branches on all of them? "
        "a slow rank (a checkpoint, the data) needs a longer HCCL_EXEC_TIMEOUT (1800 s by default)"
    )


def _connect(ending: Ending) -> Iterator[str]:
    yield _OTHER_LOGS
    yield phrase(
        "where all ranks waited: a rank that starts or compiles later needs a longer HCCL_CONNECT_TIMEOUT (120 s by "
        "default); the addresses and the TLS of all devices have to fit (`hccn_tool -i {device} -tls -g`)",
        device=_device(ending),
    )


def _comm_setting(ending: Ending) -> Iterator[str]:
    yield phrase(
        "the message names it: a rank table that does not fit the devices, a variable of HCCL, or ranks that call one "
        "communication with different arguments"
    )


def _cluster(ending: Ending) -> Iterator[str]:
    if ending.awaited is not None:
        yield phrase(
            "look at the log of rank {rank} first: it ended, or hung, before the others missed it", rank=ending.awaited
        )
    yield _OTHER_LOGS


def _crash(ending: Ending) -> Iterator[str]:
    yield phrase(
        "see where it crashed: PYTHONFAULTHANDLER=1 prints the lines of Python, `ulimit -c unlimited` and gdb those of "
        "C++"
    )
    yield phrase(
        "look at custom operators, at versions of driver, CANN and framework that do not belong together, and for bus "
        "errors at the room in /dev/shm"
    )


def _killed(ending: Ending) -> Iterator[str]:
    yield from _less_to_load(ending)
    yield phrase(
        "somebody sent it: the host, where its memory ran out (`dmesg -T | grep -i 'out of memory'`; in a container, "
        "its limit), or the launcher after another rank had failed"
    )
    yield _LESS_HOST_MEMORY


def _gone(ending: Ending) -> Iterator[str]:
    yield from _less_to_load(ending)
    yield phrase(
        "workers of CANN's compiler miss the training process: it crashed or was ended from outside; `dmesg -T | grep "
        "-i 'out of memory'` tells whether the host did it as its memory ran out, and in a container its limit"
    )
    yield _OTHER_LOGS
    yield _LESS_HOST_MEMORY


def _host_memory(ending: Ending) -> Iterator[str]:
    yield from _less_to_load(ending)
    yield _LESS_HOST_MEMORY


def _less_to_load(ending: Ending) -> Iterator[str]:
    if ending.is_loading:
        yield phrase(
            "weights were being read: with auto_trans_ckpt the processes of a host read the whole checkpoint into its "
            "memory, each for itself; transform it once beforehand, and write auto_trans_ckpt: False"
        )


def _compile(ending: Ending) -> Iterator[str]:
    yield phrase(
        "see which operator it was, and with which shapes and types; whether the package with its kernels is installed "
        "that belongs to CANN and the card; and for custom operators, whether they were built for it"
    )


def _data(ending: Ending) -> Iterator[str]:
    yield phrase("the lines around it tell which operation of the data set failed, on which file: read that one alone")


def _data_late(ending: Ending) -> Iterator[str]:
    yield phrase(
        "the device asked for a batch and got none: see what one batch takes without the model, use more workers "
        "(num_parallel_workers) and a faster disk, and look for the error of a worker above it"
    )


def _values(ending: Ending) -> Iterator[str]:
    yield phrase(
        "look at loss and norm of the steps before: the learning rate, the data of that batch, the loss scale, "
        "overflow; swap and recompute change no value"
    )


def _disk(ending: Ending) -> Iterator[str]:
    yield phrase("`df -h` tells which disk is full: of checkpoints, logs, graphs that are saved, or /dev/shm")


def _python(ending: Ending) -> Iterator[str]:
    yield phrase("the traceback above it tells where: {file}:{line}", file=ending.path, line=ending.line)


def _stopped(ending: Ending) -> Iterator[str]:
    yield phrase(
        "a person, a scheduler of jobs or a launcher ended it, a launcher mostly because another rank had ended"
    )
    yield _OTHER_LOGS


def _exited(ending: Ending) -> Iterator[str]:
    if ending.rank is not None:
        yield phrase("look at the log of rank {rank}, which ended first", rank=ending.rank)
    yield phrase("a launcher does not tell why: give the folder of the logs of all ranks to `swapconf oom`")


def _device(ending: Ending) -> str:
    return "N" if ending.device is None else str(ending.device)


_OF: Mapping[Family, Callable[[Ending], Iterator[str]]] = {
    Family.KERNEL: _kernel,
    Family.KERNEL_TIMEOUT: _kernel_timeout,
    Family.COPY: _copy,
    Family.TASK: _task,
    Family.DEVICE_MEMORY: _device_memory,
    Family.DEVICE_LOST: _device_lost,
    Family.DEVICE_BUSY: _device_busy,
    Family.PORT: _port,
    Family.LINK: _link,
    Family.WAIT: _wait,
    Family.CONNECT: _connect,
    Family.COMM_SETTING: _comm_setting,
    Family.CLUSTER: _cluster,
    Family.CRASH: _crash,
    Family.KILLED: _killed,
    Family.HOST_MEMORY: _host_memory,
    Family.COMPILE: _compile,
    Family.DATA: _data,
    Family.DATA_LATE: _data_late,
    Family.VALUES: _values,
    Family.DISK: _disk,
    Family.PYTHON: _python,
    Family.STOPPED: _stopped,
    Family.EXITED: _exited,
    Family.GONE: _gone,
}
