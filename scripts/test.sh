#!/usr/bin/env bash
# Every check and test, in an environment that this script makes. See usage.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/test.sh [--fast] [PYTEST_ARGUMENT...]

Runs ruff, mypy, the import contracts and all tests; makes .venv with everything they need.
--fast leaves out the tests that need mindspore, and its installation.

Environment: PYTHON            the interpreter to make .venv with (default: python3)
             SWAPCONF_PYTHON   the interpreter of an environment that is ready; nothing is installed
USAGE
}

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

extras=(mindspore dev)
selection=()
case ${1:-} in
  -h | --help) usage && exit ;;
  --fast)
    shift
    extras=(dev)
    selection=(-m "not mindspore")
    ;;
esac

use_environment "${extras[@]}"
cd -- "$repository"

failed=()
run() {
  printf '\n== %s\n' "$*"
  "$@" || failed+=("$1")
}

run ruff check .
run mypy
run lint-imports
run python -m pytest -n auto --dist loadfile --no-loadscope-reorder "${selection[@]}" "$@"

((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
