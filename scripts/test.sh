#!/usr/bin/env bash
# Every check and test, in an environment that this script makes. See usage.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/test.sh [--fast | --all] [PYTEST_ARGUMENT...]

Runs `just lint` (ruff, mypy, import contracts) and `just test`; makes .venv with everything they need.
--fast leaves out the tests that need mindspore, and its installation; --all runs those marked `thorough`, too, which
takes about an hour: before a release, and where what they are of has changed.

Environment: PYTHON            the interpreter to make .venv with (default: python3)
             SWAPCONF_PYTHON   the interpreter of an environment that is ready; nothing is installed
USAGE
}

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

extras=(mindspore dev)
tests=test
case ${1:-} in
  -h | --help) usage && exit ;;
  --fast)
    shift
    extras=(dev)
    tests=test-fast
    ;;
  --all)
    shift
    tests=test-all
    ;;
esac

use_environment "${extras[@]}"
cd -- "$repository"
unset PYTHONDONTWRITEBYTECODE # the tests start hundreds of processes, each of which would compile all of it anew

failed=()
run() {
  printf '\n== %s\n' "$*"
  "$@" || failed+=("$1 $2")
}

command -v just >/dev/null || die "just is missing in the environment: pip install rust-just"
run just lint
run just "$tests" "$@"

((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
