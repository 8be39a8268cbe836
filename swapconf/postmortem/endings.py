"""The messages of other ends than memory: what MindSpore, torch_npu, CANN, launchers and the host print when a run
dies, and by what a log shows that it lived.

A form of MindSpore 2.9.0 stands in the library or file of its wheel that `source` names; all others were read in public
sources, documentation and reports, which `source` names.
"""

from __future__ import annotations

from swapconf.postmortem.families import Family
from swapconf.postmortem.message import Framework, Message, Says

_RES = "libmindspore_ascend_res_manager.so of 2.9.0"
_BACKEND = "libmindspore_ms_backend.so of 2.9.0"
_CLUSTER_LIBRARY = "libmindspore_cluster.so of 2.9.0"
_MSRUN = "mindspore/parallel/cluster/process_entity/_api.py of 2.9.0"
_HCOMM = "the error messages of hicann/hcomm (CANN 9)"
_RUNTIME = "hicann/runtime (CANN 9)"
_FAULTDIAG = "the events of Ascend FaultDiag (Ascend/mind-cluster, kg-config.json)"


def _ended(framework: Framework, name: str, form: str, source: str, family: Family | None = None) -> Message:
    return _message(framework, Says.ENDED, name, form, source, family)


def _message(
    framework: Framework, says: Says, name: str, form: str, source: str, family: Family | None = None
) -> Message:
    versions = "2.9.0 and earlier" if framework is Framework.MINDSPORE else "reports of 2023 to 2026"
    return Message(
        framework=framework, name=name, says=says, form=form, versions=versions, source=source, family=family
    )


def _mindspore(name: str, form: str, source: str, family: Family | None = None) -> Message:
    return _ended(Framework.MINDSPORE, name, form, source, family)


def _torch(name: str, form: str, source: str, family: Family | None = None) -> Message:
    return _ended(Framework.TORCH_NPU, name, form, source, family)


def _cann(name: str, form: str, source: str, family: Family | None = None) -> Message:
    return _ended(Framework.CANN, name, form, source, family)


def _system(name: str, form: str, source: str, family: Family | None = None) -> Message:
    return _ended(Framework.SYSTEM, name, form, source, family)


# a task on the device; which family it is, its code or its reason tells
_TASKS = (
    _mindspore(
        "task",
        "un Task failed, task_id: {:id}, stream_id: {:id}, tid: {:id}, device_id: {device:id}, retcode: {code:code}",
        _RES,
    ),
    _mindspore(
        "task-infos",
        "ask fail infos task_id: {:id}, stream_id: {:id}, tid: {:id}, device_id: {device:id}, retcode: {code:code}",
        "mindspore-lab/mindocr issue 615 (2.1)",
    ),
    _mindspore("launch", "ailed to launch kernel: {kernel:name}", _BACKEND, Family.TASK),
    _mindspore("launch-name", "aunch kernel failed, kernel name: {kernel:name}", _BACKEND, Family.TASK),
    _mindspore("launch-short", "aunch kernel failed: {kernel:name}", f"{_RES}; {_BACKEND}", Family.TASK),
    _mindspore("dump-node", "Dump node ({kernel:name}) task error", "mindspore-lab/mindocr issue 615", Family.TASK),
    _mindspore("sync-stream", "ync stream error", f"{_RES}; mindspore-lab/mindone issue 269", Family.TASK),
    _torch(
        "npu-function", "NPU function error: {:text}, error code is {code:code}", "vllm-project/vllm-ascend issue 116"
    ),
    _torch("npu-old", "NPU error,[[ NPU]] error code is[[:]][[ ]]{code:code}", "open-mmlab/mmcv issue 3203"),
    _torch(
        "acl-stream", "ACL stream synchronize failed, error code:{code:code}", "vllm-project/vllm-ascend issue 2763"
    ),
    _torch("aclnn", "call {:word} failed, error code is {code:code}", "torch_npu/csrc/framework/OpParamMaker.cpp"),
    _cann("runtime-result", "runtime result = {code:code}", "vllm-project/vllm-ascend issue 116"),
    _cann("reason", "failed, reason=[{reason:text}]", f"FuncErrorReason of {_RUNTIME}"),
    _cann("reason-bare", "failed, reason={reason:text}[FUNC", "vllm-project/vllm-ascend issue 7676"),
    _cann("kernel-task", "Kernel task happen error, retCode={:word}, [{reason:text}]", "candle-org/MindAct issue 1752"),
    _cann("hwts", "RTS_HWTS: {reason:text}, slot_id", "hiyouga/LlamaFactory issue 3670"),
    _cann(
        "core",
        "there is an exception of {reason:text}, core id is",
        "vllm-project/vllm-ascend issue 2763",
        Family.KERNEL,
    ),
    _cann(
        "core-old",
        "there is an {reason:text} exception, core id is",
        "vllm-project/vllm-ascend issue 3263",
        Family.KERNEL,
    ),
    _cann("extend-info", "errorStr: {detail:text}.", "vllm-project/vllm-ascend issue 3263", Family.KERNEL),
    _cann("kernel-name", "fault kernel_name={kernel:name}", f"{_FAULTDIAG}, Runtime_032", Family.KERNEL),
    _cann("aicpu", "an exception occurred during AICPU execution", "candle-org/MindAct issue 1752", Family.KERNEL),
    _cann("sdma", "there is a sdma error", "vllm-project/vllm-ascend issue 116", Family.COPY),
    _cann("hccl-task", "hccl fftsplus task timeout occurred", "Ascend/pytorch issue 54", Family.WAIT),
    _cann(
        "late-aicpu", "E30008: AI CPU operator execution time out", f"{_FAULTDIAG}, ERRMSG_Custom_01", Family.DATA_LATE
    ),
)

# communication
_COMMUNICATION = (
    _cann("timeout-run", "EI0002", _HCOMM, Family.WAIT),
    _cann("waited-for", "Notify record from remote rank: [{remote:id}]", _HCOMM, Family.WAIT),
    _cann("waited-for-9", "Waiting peer rank: {remote:id};", _HCOMM, Family.WAIT),
    _cann("stuck", "Stuck Occurred", "CANN 9.0, HCCL user guide, cluster heartbeat mechanism", Family.WAIT),
    _cann("timeout-connect", "EI0006", _HCOMM, Family.CONNECT),
    _cann("cluster-info", "EI0015", _HCOMM, Family.CONNECT),
    _cann("p2p-timeout", "onnected p2p timeout", f"{_FAULTDIAG}, ERRMSG_Custom_05", Family.CONNECT),
    _cann("p2p-status", "Wait timeout for get P2P status", f"{_FAULTDIAG}, ERRMSG_Custom_05", Family.CONNECT),
    _cann("bad-variable", "EI0001", _HCOMM, Family.COMM_SETTING),
    _cann("bad-value", "EI0003", _HCOMM, Family.COMM_SETTING),
    _cann("rank-table", "EI0004", _HCOMM, Family.COMM_SETTING),
    _cann("unlike-arguments", "EI0005", _HCOMM, Family.COMM_SETTING),
    _cann("unlike-versions", "EI0008", _HCOMM, Family.COMM_SETTING),
    _cann("rank-table-check", "EI0014", _HCOMM, Family.COMM_SETTING),
    _cann("bad-config", "EI0016", _HCOMM, Family.COMM_SETTING),
    _cann("rank-table-key", "EI0017", _HCOMM, Family.COMM_SETTING),
    _cann("bad-address", "EJ0004", _HCOMM, Family.COMM_SETTING),
    _cann("p2p", "EI0010", _HCOMM, Family.LINK),
    _cann("copy-between", "EI0012", _HCOMM, Family.LINK),
    _cann("cqe", "EI0013", _HCOMM, Family.LINK),
    _cann("cqe-status", "rror cqe status", "CANN 9.0, HCCL user guide, ERROR CQE Error (EI0013)", Family.LINK),
    _cann("cqe-event", "rror cqe Occurred", "CANN 9.0, HCCL user guide, cluster heartbeat mechanism", Family.LINK),
    _cann("cqe-heartbeat", "cqe err status", f"{_FAULTDIAG}, HCCL_029", Family.LINK),
    _cann("port-down", "EJ0002", _HCOMM, Family.LINK),
    _cann("lost", "Heartbeat Lost Occurred", "CANN 9.0, HCCL user guide, cluster heartbeat mechanism", Family.CLUSTER),
    _cann("busy", "EJ0001", _HCOMM, Family.DEVICE_BUSY),
    _cann("bound", "EJ0003", _HCOMM, Family.PORT),
    _system("port", "ddress already in use", f"{_FAULTDIAG}, PyTorch_Init_05", Family.PORT),
    _mindspore("scheduler-port", "scheduler port MS_SCHED_PORT is occupied", _CLUSTER_LIBRARY, Family.PORT),
    _mindspore(
        "timed-out", "The node: {node:name} is timed out. It may exit with exception", _CLUSTER_LIBRARY, Family.CLUSTER
    ),
    _mindspore("timed-out-total", "total number of timed out node is", _CLUSTER_LIBRARY, Family.CLUSTER),
    _mindspore("timed-out-msrun", "ime out nodes are ['{node:word}'", _MSRUN, Family.CLUSTER),
    _mindspore("no-scheduler", "the meta server. Maybe it has exited", _CLUSTER_LIBRARY, Family.CLUSTER),
)

# the device and the host
_MACHINES = (
    _torch("uce", "UCE ERROR", "Mind Cluster 7.3, process-level online recovery", Family.DEVICE_MEMORY),
    _cann("ecc", "ulti-bit ECC", f"errcode_manage.cc of {_RUNTIME}", Family.DEVICE_MEMORY),
    _cann("no-heartbeat", "evice lost heart", f"{_FAULTDIAG}, Runtime_055", Family.DEVICE_LOST),
    _torch("forced", "FORCE STOP", "torch_npu/csrc/core/npu/NPUException.h", Family.STOPPED),
    _system("fault", "Segmentation fault", "the shell and faulthandler, signal 11", Family.CRASH),
    _system("core-dumped", "core dumped", "the shell", Family.CRASH),
    _system("fatal", "Fatal Python error: {detail:line}", "Python's faulthandler", Family.CRASH),
    _system("bus", "Bus error", "the shell, signal 7", Family.CRASH),
    _system("terminate", "terminate called after throwing", "libstdc++", Family.CRASH),
    _system("heap", "double free or corruption", "glibc", Family.CRASH),
    _system("sigsegv", "Signal 11 (SIGSEGV) received by PID {pid:id}", "torch/distributed/elastic", Family.CRASH),
    _system("sigabrt", "Signal 6 (SIGABRT) received by PID {pid:id}", "torch/distributed/elastic", Family.CRASH),
    _system("killed", ": line {:id}:{:blank}{pid:id}{:blank}Killed", "bash, after signal 9", Family.KILLED),
    _system("killed-alone", "Killed\n", "bash, after signal 9, alone on its line", Family.KILLED),
    _system("sigkill", "Signal 9 (SIGKILL) received by PID {pid:id}", "torch/distributed/elastic", Family.KILLED),
    _system("killer", "ut of memory: Killed process {pid:id}", "the kernel of Linux", Family.HOST_MEMORY),
    _system("killer-cgroup", "emory cgroup out of memory", "the kernel of Linux", Family.HOST_MEMORY),
    _system("worker-killed", "is killed by signal: Killed", "torch/utils/data", Family.HOST_MEMORY),
    _system("bad-alloc", "std::bad_alloc", "libstdc++", Family.HOST_MEMORY),
    _cann(
        "main-gone",
        "main process disappeared",
        "discuss.mindspore.cn topic 1215: workers of CANN's compiler",
        Family.GONE,
    ),
    _system("disk", "No space left on device", f"{_FAULTDIAG}, Service_Container_04", Family.DISK),
    _system("sigterm", "Signal 15 (SIGTERM) received by PID {pid:id}", "torch/distributed/elastic", Family.STOPPED),
    _system("sigterm-python", "got signal: 15", "torch/distributed/elastic", Family.STOPPED),
    _system("sigterm-log", "eceived signal 15", "public logs of launchers", Family.STOPPED),
)

# what is wrong in the program, its data or its values
_PROGRAM = (
    _cann("compile", "E40021", "CANN's list of error codes: an operator was not compiled", Family.COMPILE),
    _cann("import", "E40020", "CANN's list of error codes: a module of Python is missing", Family.COMPILE),
    _cann("no-operator", "EZ3002", "CANN's list of error codes: an operator is not supported", Family.COMPILE),
    _cann("no-kernel-store", "EZ3003", "CANN's list of error codes: no kernel for an operator", Family.COMPILE),
    _cann("no-binary", "does not has any binary", "hiyouga/LlamaFactory issue 3796", Family.COMPILE),
    _mindspore("pipeline", "thrown from dataset pipeline", "libmindspore_core.so of 2.9.0", Family.DATA),
    _mindspore(
        "subprocess",
        "subprocess worker may be killed or exit abnormally",
        "mindspore/dataset/engine/datasets_user_defined.py of 2.9.0",
        Family.DATA,
    ),
    _mindspore("worker-gone", "DataLoader worker (pid: {pid:id}) was killed by", "_c_dataengine of 2.9.0", Family.DATA),
    _system("worker-exited", "DataLoader worker (pid(s) {:text}) exited unexpectedly", "torch/utils/data", Family.DATA),
    _mindspore(
        "nan", "There is nan in {detail:word} with value", "mindformers 1.9.0, core/callback/callback.py", Family.VALUES
    ),
    _mindspore(
        "inf", "There is inf in {detail:word} with value", "mindformers 1.9.0, core/callback/callback.py", Family.VALUES
    ),
    _mindspore("norm", "TREError occurred", "mindformers 1.9.0, core/callback/callback.py", Family.VALUES),
    _mindspore(
        "norm-spikes",
        "consecutive times greater than threshold",
        "mindformers 1.9.0, core/callback/callback.py",
        Family.VALUES,
    ),
    _system(
        "nan-rank", "Rank {rank:id}: found NaN in {detail:line}", "alibaba/Pai-Megatron-Patch issue 366", Family.VALUES
    ),
    _system("nan-megatron", "found NaN in {detail:line}", "alibaba/Pai-Megatron-Patch issue 366", Family.VALUES),
    _system("python", "Error: {detail:line}", "Python, behind a traceback", Family.PYTHON),
    _system("python-exception", "Exception: {detail:line}", "Python, behind a traceback", Family.PYTHON),
    _system("python-bare", "Error\n", "Python, behind a traceback", Family.PYTHON),
    _system("interrupted", "KeyboardInterrupt\n", "Python, behind a traceback", Family.STOPPED),
)

# launchers
_LAUNCHERS = (
    _mindspore("worker", "orker process {pid:id} exit with exception. Error code: {exit:signed}", _MSRUN),
    _mindspore(
        "worker-old", "orker process {pid:id} exit with exception.", "candle-org/MindAct issue 1893", Family.EXITED
    ),
    _system(
        "first-failure",
        "Root Cause (first observed failure):{:line}\n{:line}\n{:line}\n{:line}\n"
        "{:gap}rank{:blank}: {rank:id} {:line}\n{:gap}exitcode{:blank}: {exit:signed} ",
        "torch/distributed/elastic; vllm-project/speculators issue 1115",
    ),
    _system(
        "child",
        "failed (exitcode: {exit:signed}) local_rank: {:id} (pid: {pid:id})",
        "fudan-generative-vision/hallo2 issue 56",
    ),
)

_LIFE = (
    _message(
        Framework.MINDSPORE,
        Says.ALIVE,
        "step",
        "step:[{:blank}{step:id}/{:blank}{steps:id}]",
        "mindformers 1.9.0, core/callback/callback.py and pynative/callback/loss_callback.py",
    ),
    _message(
        Framework.MINDSPORE,
        Says.ALIVE,
        "step-of-epoch",
        "step: {step:id}, loss is ",
        "mindspore/train/callback/_loss_monitor.py of 2.9.0",
    ),
    _message(
        Framework.TORCH_NPU,
        Says.ALIVE,
        "iteration",
        "iteration {:blank}{step:id}/{:blank}{steps:id} | ",
        "Megatron-LM and MindSpeed-LLM, training_log; bigscience-workshop/Megatron-DeepSpeed issue 396",
    ),
    _message(Framework.TORCH_NPU, Says.ALIVE, "loss", "{'loss': ", "the Trainer of transformers"),
    _message(Framework.MINDSPORE, Says.OVER, "over", ".Training Over!.", "mindformers 1.9.0, trainer/base_trainer.py"),
    _message(Framework.MINDSPORE, Says.LOADS, "loads", ".Start load checkpoint", "mindformers 1.9.0, trainer/utils.py"),
    _message(
        Framework.MINDSPORE,
        Says.LOADS,
        "loads-new",
        ".Start Load Checkpoint",
        "mindformers 1.9.0, checkpoint/checkpoint.py",
    ),
    _message(
        Framework.MINDSPORE,
        Says.LOADS,
        "loads-resumed",
        "Begin to load ckpt",
        "mindformers 1.9.0, trainer/base_trainer.py",
    ),
    _message(Framework.TORCH_NPU, Says.LOADS, "shards", "Loading checkpoint shards: ", "transformers, from_pretrained"),
    _message(
        Framework.MINDSPORE,
        Says.LOADED,
        "trains",
        ".Starting Training Model.",
        "mindformers 1.9.0, trainer/base_trainer.py",
    ),
    _message(
        Framework.MINDSPORE,
        Says.LOADED,
        "loaded",
        "Checkpoint Finished.",
        "mindformers 1.9.0, checkpoint/checkpoint.py",
    ),
    _message(
        Framework.MINDSPORE,
        Says.LOADED,
        "loaded-resumed",
        "End to load ckpt",
        "mindformers 1.9.0, trainer/base_trainer.py",
    ),
    _message(
        Framework.TORCH_NPU, Says.LOADED, "trains-transformers", "***** Running training", "transformers, Trainer"
    ),
)

ENDINGS = (*_TASKS, *_COMMUNICATION, *_MACHINES, *_PROGRAM, *_LAUNCHERS, *_LIFE)

# one of them stands in each of these messages
END_ANCHORS = (
    b"etcode: ",
    b"aunch kernel",
    b"Dump node",
    b"ync stream err",
    b"rror code",
    b"runtime result",
    b", reason=",
    b"happen error",
    b"RTS_HWTS",
    b"there is a",
    b"errorStr",
    b"fault kernel",
    b"AICPU exec",
    b"task timeout occ",
    b"E30008",
    b"EI00",
    b"EJ00",
    b"remote rank: [",
    b"Waiting peer",
    b"Occurred",
    b"p2p timeout",
    b"P2P status",
    b"cqe",
    b"already in use",
    b"MS_SCHED_PORT is",
    b"imed out",
    b"ime out nodes",
    b"Maybe it has exited",
    b"UCE ERROR",
    b"bit ECC",
    b"lost heart",
    b"FORCE STOP",
    b"egmentation fault",
    b"core dumped",
    b"Fatal Python",
    b"Bus error",
    b"terminate called",
    b"double free",
    b"received by PID",
    b"Killed",
    b"cgroup out of",
    b"bad_alloc",
    b"process disappear",
    b"No space left",
    b"signal",
    b"E4002",
    b"EZ300",
    b"has any binary",
    b"dataset pipeline",
    b"subprocess worker",
    b"DataLoader worker",
    b"There is ",
    b"TREError occ",
    b"consecutive times",
    b"found NaN",
    b"Error",
    b"Exception: ",
    b"KeyboardInterrupt",
    b"exit with exception",
    b"Root Cause",
    b"exitcode: ",
    b"step:[",
    b"loss is ",
    b"iteration ",
    b"{'loss'",
    b"Training Over",
    b"tart load check",
    b"tart Load Check",
    b" to load ckpt",
    b"checkpoint shards",
    b"Starting Training",
    b"Checkpoint Finished",
    b"Running training",
)
