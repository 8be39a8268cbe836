#!/usr/bin/env bash
# swapconf with every generation of mindformers and MindSpore that PyPI has. See usage.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/generations.sh [--folder FOLDER] [--table | --catalog | --install] [MINDFORMERS+MINDSPORE...]
       scripts/generations.sh [--folder FOLDER] [--table | --install] pynative
       scripts/generations.sh [--folder FOLDER] [--table] cards [RUN...]
       scripts/generations.sh [--folder FOLDER] [--table] measured

For each pair of versions (default: all of docs/evidence/generations.md): makes a virtual environment beside the packages of
.venv, trains example 4 on the CPU with two workers, dry-runs it, and compares the case of rule R2 with plain
mindformers and with `swapconf explain`. What a pair gave is kept and not run again; `--table` writes
docs/evidence/generations.md from it. A pair takes some 5 to 15 minutes and 2.5 GB.

--catalog: instead, reads the operators of its models from the real cells, and writes what differs from the catalog into
swapconf/models/families/MINDFORMERS; some 10 to 20 minutes for a pair.

--install: instead, only makes the environment of each pair. Scripts of scripts/evidence run with it where they are
started by ENVIRONMENT/bin/python with PYTHONPATH=ROOT, and for 2.0.0 scripts/placeholders behind it.

pynative: instead, makes the environments of mindformers 2.0.0 and 2.1.0 with MindSpore 2.10.0, and dry-runs
configs/pynative without swap and recompute and with several of them, on one card and on one of eight ranks that share
the parameters, and with 2.1.0 in every parallel dimension; some 20 minutes. What a run gave is kept. `--table` writes
docs/evidence/pynative.md. Tests of marker `pynative` find these environments; `--install` makes them and runs nothing.

cards: instead, dry-runs what was run on eight cards and published (RUN: beginnings such as c12; default: all), with the
newest of these environments, half a minute to three minutes each. What a run gave is kept; `--table` writes
docs/evidence/pynative-cards.md.

measured: instead, dry-runs what was run on two cards and published, with both of these environments, some 40 s each;
what a run gave is kept; `--table` writes docs/evidence/pynative-measured.md.

--folder: where environments and results are kept (default: swapconf/generations in the user's cache).

Exit codes: 0 every pair is as it should be; 1 one is not.

Environment: PYTHON            the interpreter to make .venv with (default: python3)
             SWAPCONF_PYTHON   the interpreter of an environment that is ready; nothing is installed there
USAGE
}

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) usage && exit ;;
esac

use_environment mindspore dryrun
export PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH}
exec python "$repository/scripts/generations.py" "$@"
