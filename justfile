# What there is to do here, in one place: hooks, people and CI run the same recipes. `just` lists them.
#
# just comes with the extra `dev` (pip install -e '.[dev]'). The tools are those of .venv, which scripts/test.sh makes, or
# of the environment of SWAPCONF_PYTHON; where there is neither, what is on PATH.

set positional-arguments
set shell := ["bash", "-euo", "pipefail", "-c"]

given := env("SWAPCONF_PYTHON", "")
python := if given == "" { justfile_directory() / ".venv" / "bin" / "python" } else { given }
export PATH := parent_directory(python) + ":" + env("PATH")
just := just_executable()
# one more than there are cores: some tests wait for processes, and a core would wait with them
parallel := "-n $(($(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder"

[private]
default:
    @"{{ just }}" --list --unsorted

# style, formatting, types and import contracts; each is run, whatever the others say
lint: (each "style" "format-check" "types" "imports")

# the tests of CI, or those that pytest's arguments select: a quarter of an hour on two cores
test *arguments:
    python -m pytest {{ parallel }} -m "not thorough" "$@"

# all tests: about an hour on two cores
test-all *arguments:
    python -m pytest {{ parallel }} "$@"

# the tests that need no mindspore
test-fast *arguments:
    python -m pytest {{ parallel }} -m "not mindspore and not pynative and not thorough" "$@"

# repair what ruff can repair, and format
format:
    ruff check --fix-only .
    ruff format .

# write what is made from the code: translations, pages of docs/; with --check only say what differs
generate *arguments:
    python scripts/generate.py "$@"

# write the catalog of models from the real cells; an hour, needs mindspore (arguments: scripts/build_families.py --help)
catalog *arguments:
    python scripts/build_families.py "$@"

# write what the commands of docs/tutorial.md print; minutes, needs mindspore; with --check only say what differs
tutorial *arguments:
    python scripts/build_tutorial.py "$@"

# one benchmark of scripts/bench, such as `just bench check`
bench name *arguments:
    python "scripts/bench/bench_$1.py" "${@:2}"

# install the hooks of .pre-commit-config.yaml
hooks:
    pre-commit install

# build the wheel, from a copy, so that nothing of an earlier build gets into it
wheel folder="dist":
    #!/usr/bin/env bash
    set -euo pipefail
    copy=$(mktemp -d)
    trap 'rm -rf -- "$copy"' EXIT
    cp -r swapconf pyproject.toml README.md LICENSE "$copy"
    python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$1" "$copy"

# tag the version of swapconf/__init__.py, when all is committed and CHANGELOG.md tells of it
release: lint (generate "--check") wheel
    #!/usr/bin/env bash
    set -euo pipefail
    refuse() { echo "$1" >&2; exit 1; }
    version=$(python -c 'import swapconf; print(swapconf.__version__)')
    [[ -z $(git status --porcelain) ]] || refuse "not everything is committed"
    grep -q "^## \[$version\] - " CHANGELOG.md || refuse "CHANGELOG.md has no section '## [$version] - DATE'"
    git tag --annotate "v$version" --message "swapconf $version"
    echo "tagged v$version; publish it with: git push origin v$version"

[private]
style:
    ruff check .

[private]
format-check:
    ruff format --check --quiet .

[private]
types:
    mypy

[private]
imports:
    lint-imports

[private]
each *recipes:
    #!/usr/bin/env bash
    failed=()
    for recipe in "$@"; do
      printf '\n== just %s\n' "$recipe"
      "{{ just }}" "$recipe" || failed+=("$recipe")
    done
    ((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
