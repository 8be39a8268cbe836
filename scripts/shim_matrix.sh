#!/usr/bin/env bash
# The host runtime shim with every supported pair of MindSpore and MindFormers. See usage.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/shim_matrix.sh [MINDSPORE/MINDFORMERS...]

For each pair of versions (default: 2.7.2/1.6.0 2.9.0/1.9.0 2.10.0/1.9.0): makes a virtual environment in a temporary
folder, installs the pair from PyPI, builds the shim, dry-runs one layer of Llama, and prints a row of a table. Each
environment takes about 3.4 GB and some minutes, and is deleted before the next one.

Exit codes: 0 every dry run ended cleanly and reported a peak; 1 one did not.

Environment: PYTHON   the interpreter to make the environments with (default: python3.11)
             TMPDIR   where (default: /tmp)
USAGE
}

case ${1:-} in
  -h | --help) usage && exit ;;
esac

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
python=${PYTHON:-python3.11}
pairs=("$@")
((${#pairs[@]} > 0)) || pairs=(2.7.2/1.6.0 2.9.0/1.9.0 2.10.0/1.9.0)

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
rows=$work/rows
failed=0

venv=$work/venv
install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir "$@"
}

for pair in "${pairs[@]}"; do
  echo "== mindspore ${pair%/*}, mindformers ${pair#*/}" >&2
  # In two steps, because MindFormers 1.9.0 asks for MindSpore 2.9 and works with 2.10.0, which in turn needs numpy 1.
  # A cache of its own, so that the shim is really built.
  if "$python" -m venv "$venv" \
    && install "mindformers==${pair#*/}" pyelftools \
    && install "mindspore==${pair%/*}" "numpy<2" \
    && XDG_CACHE_HOME=$work/cache "$venv/bin/python" "$here/shim_matrix.py" >"$work/row"; then
    cat "$work/row" >>"$rows"
  else
    failed=1
    # A dry run that failed has a row, too; an installation that failed has none.
    if [[ -s $work/row ]]; then
      cat "$work/row" >>"$rows"
    else
      echo "mindspore ${pair%/*}: no result" >&2
    fi
  fi
  rm -rf -- "$venv" "$work/cache" "$work/row"
done

[[ -s $rows ]] || exit 1
"$python" - "$rows" <<'TABLE'
import json
import sys

columns = ("mindspore", "mindformers", "python_version", "source", "symbols", "build_seconds", "cached_seconds",
           "run_seconds", "exit_code", "peak")
with open(sys.argv[1], encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
print("| " + " | ".join(columns) + " |")
print("|" + " --- |" * len(columns))
for row in rows:
    print("| " + " | ".join(str(row[column]) for column in columns) + " |")
TABLE
exit "$failed"
