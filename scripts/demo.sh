#!/usr/bin/env bash
# The main job on this machine, in an environment that this script makes. See usage.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/demo.sh [--output FOLDER]

Trains the small documented examples 2 to 4 on the CPU with two msrun workers each, builds example 1, and checks the
loss and the lines in output/msrun/worker_0.log against the documented ones. Makes .venv with everything it needs, and
with what the commands of README.md need besides: dry runs and pages.
--output: the folder to work in (default: output/demo in the checkout).

Exit codes: 0 all as documented; 1 something differs or failed.

Environment: PYTHON            the interpreter to make .venv with (default: python3)
             SWAPCONF_PYTHON   the interpreter of an environment that is ready; nothing is installed
USAGE
}

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) usage && exit ;;
esac

use_environment mindspore dryrun report
exec python "$repository/scripts/demo.py" "$@"
