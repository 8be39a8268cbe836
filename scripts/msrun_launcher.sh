#!/usr/bin/env bash
# Start run_mindformer.py on several devices, under swapconf. Takes the arguments of mindformers' launcher of that name.
set -euo pipefail

usage() {
  cat >&2 <<'USAGE'
Usage: bash scripts/msrun_launcher.sh "run_mindformer.py ARGS"                       8 workers on this machine
       bash scripts/msrun_launcher.sh "run_mindformer.py ARGS" WORKER_NUM            this machine
       bash scripts/msrun_launcher.sh "run_mindformer.py ARGS" WORKER_NUM MASTER_PORT LOG_DIR JOIN CLUSTER_TIME_OUT
       bash scripts/msrun_launcher.sh "run_mindformer.py ARGS" WORKER_NUM LOCAL_WORKER MASTER_ADDR MASTER_PORT \
                                      NODE_RANK LOG_DIR JOIN CLUSTER_TIME_OUT        several machines

The first argument is split into words as a shell would split it; nothing in it is executed or expanded.
JOIN is True to wait for the workers and to fail when one of them fails; with False msrun returns at once and the
logs in LOG_DIR tell how it goes.

Environment: SWAPCONF_DISABLE=1     start run_mindformer.py without swapconf
             PYTHON                 when msrun is not on PATH: the interpreter that it is installed beside
             MS_SIMULATION_LEVEL    dry run without a card or CANN; RANK_ID then limits it to that one rank
USAGE
  exit 1
}

fail() {
  echo "msrun_launcher.sh: $*" >&2
  exit 1
}

scripts_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

worker_num=8
local_worker=8
master_addr=127.0.0.1
master_port=8118
node_rank=0
log_dir=output/msrun_log
join=False
cluster_time_out=7200
several_machines=false

case $# in
  1) ;;
  2)
    worker_num=$2
    local_worker=$2
    ;;
  6)
    worker_num=$2
    local_worker=$2
    master_port=$3
    log_dir=$4
    join=$5
    cluster_time_out=$6
    ;;
  9)
    worker_num=$2
    local_worker=$3
    master_addr=$4
    master_port=$5
    node_rank=$6
    log_dir=$7
    join=$8
    cluster_time_out=$9
    several_machines=true
    ;;
  *) usage ;;
esac

# A value in the wrong place is the usual mistake, and msrun's own message would not name it.
for name in worker_num local_worker master_port node_rank; do
  [[ ${!name} =~ ^[0-9]+$ ]] || fail "${name^^} is '${!name}', but must be a whole number"
done
[[ $cluster_time_out =~ ^-?[0-9]+$ ]] || fail "CLUSTER_TIME_OUT is '$cluster_time_out', but must be seconds"
[[ $join == True || $join == False ]] || fail "JOIN is '$join', but must be True or False"

if command -v msrun >/dev/null; then
  msrun=$(command -v msrun)
elif [[ -n ${PYTHON:-} && -x $(dirname -- "$PYTHON")/msrun ]]; then
  bin_dir=$(cd -- "$(dirname -- "$PYTHON")" && pwd)
  msrun=$bin_dir/msrun
  # msrun starts its workers with whatever `python` comes first.
  export PATH=$bin_dir:$PATH
else
  fail "msrun was found neither on PATH nor beside \$PYTHON; activate the environment that mindspore is installed in"
fi
python=$(command -v python || command -v python3) || fail "there is no python on PATH"

# Words are separated by NUL on their way here, so that they may hold spaces and line breaks. A dot ends the list: its
# absence means that splitting failed (python has then said why). shlex does not know that a backslash at the end of a
# line joins it to the next one.
words=()
while IFS= read -r -d '' word; do
  words+=("$word")
done < <("$python" -c '
import shlex, sys
try:
    words = shlex.split(sys.argv[1].replace("\\\n", ""))
except ValueError as error:
    sys.exit(f"msrun_launcher.sh: the command cannot be split into words: {error}: {sys.argv[1]}")
sys.stdout.write("".join(f"{word}\0" for word in [*words, "."]))
' "$1")
((${#words[@]} > 0)) || exit 1
unset 'words[-1]'
((${#words[@]} > 0)) || usage

# The documented command names the script without its folder.
script=${words[0]}
if [[ ! -f $script && -f $scripts_dir/$script ]]; then
  script=$scripts_dir/$script
fi
[[ -f $script ]] || fail "there is no file $script, neither here nor in $scripts_dir"
script_args=("${words[@]:1}")

command=("$msrun" "--worker_num=$worker_num" "--local_worker_num=$local_worker" "--master_port=$master_port")
if $several_machines; then
  command+=("--master_addr=$master_addr" "--node_rank=$node_rank")
fi
command+=("--log_dir=$log_dir" "--join=$join" "--cluster_time_out=$cluster_time_out")
if [[ -n ${MS_SIMULATION_LEVEL:-} ]]; then
  # The variables with which MindSpore simulates the device: quoted `export` lines that swapconf itself writes.
  simulation=$(PYTHONPATH=${scripts_dir%/*}${PYTHONPATH:+:$PYTHONPATH} \
    "$python" -m swapconf dryrun --env --level "$MS_SIMULATION_LEVEL") || fail "the dry run cannot be prepared"
  eval "$simulation"
  command+=("--sim_level=$MS_SIMULATION_LEVEL")
  # msrun would read RANK_ID itself, but silently.
  if [[ -n ${RANK_ID:-} ]]; then
    command+=("--sim_rank_id=$RANK_ID")
  fi
fi
if [[ ${SWAPCONF_DISABLE:-} == 1 ]]; then
  command+=("$script")
else
  # msrun puts `python` before a script of its own accord, but takes an explicit one as it is: the only way to pass -m.
  command+=(python -m swapconf run "$script")
  export PYTHONPATH=${scripts_dir%/*}${PYTHONPATH:+:$PYTHONPATH}
fi
command+=(${script_args[@]+"${script_args[@]}"})

printf 'Running:'
printf ' %q' "${command[@]}"
printf '\nLogs: %s\n' "$log_dir"
exec "${command[@]}"
