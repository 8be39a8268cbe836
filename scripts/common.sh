# Sourced by demo.sh and test.sh: the virtual environment that both work in. Defines functions only.
# shellcheck shell=bash

repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# Print the minor version of an interpreter, such as 3.11; fail when it is none that swapconf runs on.
python_version() {
  local version
  version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) \
    || die "there is no working interpreter '$1'; install Python 3.10 to 3.12, or name one: PYTHON=python3.11 $0"
  case $version in
    3.10 | 3.11 | 3.12) echo "$version" ;;
    *) die "'$1' is Python $version, but 3.10 to 3.12 is needed; name another: PYTHON=python3.11 $0" ;;
  esac
}

# use_environment EXTRA...  puts an environment with swapconf and these extras first on PATH, making it where needed.
#
# SWAPCONF_PYTHON names the interpreter of an environment that is ready; nothing is then installed. Otherwise it is
# .venv in the checkout. Each installed extra leaves a marker there that holds what it was installed for, so that an
# interrupted installation is taken up again, and a changed pyproject.toml or a moved checkout is installed anew.
use_environment() {
  local bin
  if [[ -n ${SWAPCONF_PYTHON:-} ]]; then
    bin=$(cd -- "$(dirname -- "$SWAPCONF_PYTHON")" && pwd) || die "there is no SWAPCONF_PYTHON '$SWAPCONF_PYTHON'"
  else
    exec 9<"$repository"
    flock --nonblock 9 || { echo "Waiting for another script that installs into .venv ..." && flock 9; }
    make_environment "$@"
    exec 9<&-
    bin=$repository/.venv/bin
  fi
  export PATH=$bin:$PATH
  unset PYTHONHOME
}

make_environment() {
  local venv=$repository/.venv chosen=${PYTHON:-python3} version key extra missing=() extras
  local markers=$venv/swapconf-installed python=$venv/bin/python
  version=$(python_version "$chosen") || exit 1
  key=$({ echo "$version $repository" && cat "$repository/pyproject.toml"; } | sha256sum | cut -d' ' -f1)
  for extra in "$@"; do
    [[ $(cat "$markers/$extra" 2>/dev/null) == "$key" ]] || missing+=("$extra")
  done
  ((${#missing[@]} > 0)) || return 0

  # An environment that someone made by hand is kept as long as it works and is of the version asked for.
  if [[ $("$python" -c 'import pip, sys; print("%d.%d" % sys.version_info[:2], sys.prefix)' 2>/dev/null) \
    != "$version $venv" ]]; then
    echo "Making the virtual environment .venv with Python $version"
    "$chosen" -m venv --clear "$venv" \
      || die "'$chosen -m venv' failed (on Debian and Ubuntu: apt install python3-venv)"
  fi
  extras=$(IFS=, && echo "$*")
  echo "Installing swapconf[$extras] into .venv (mindspore is large: minutes the first time)"
  (cd -- "$repository" && "$python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]") \
    || die "the installation failed; run this again to continue it"
  mkdir -p "$markers"
  for extra in "$@"; do
    echo "$key" >"$markers/$extra"
  done
}
