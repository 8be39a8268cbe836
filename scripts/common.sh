# Sourced by demo.sh and test.sh: the virtual environment that both work in. Defines functions only.
# shellcheck shell=bash

repository=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# Print the minor version of an interpreter, such as 3.11, and the environment that it belongs to.
python_facts() {
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.prefix)' 2>/dev/null
}

is_supported() {
  [[ $1 =~ ^3\.1[0-2]\  ]]
}

# Print the interpreter to make the environment with: $PYTHON, else the first that swapconf runs on.
choose_python() {
  local candidate facts candidates=(python3 python3.12 python3.11 python3.10)
  [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    facts=$(python_facts "$candidate") && is_supported "$facts" && echo "$candidate" && return
  done
  facts=$(python_facts "${candidates[0]}") || die "there is no working interpreter '${candidates[0]}';" \
    "install Python 3.10 to 3.12, or name one: PYTHON=python3.11 $0"
  die "'${candidates[0]}' is Python ${facts%% *}, but 3.10 to 3.12 is needed; name one: PYTHON=python3.11 $0"
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
  local venv=$repository/.venv chosen facts key extra missing=() extras
  local markers=$venv/swapconf-installed python=$venv/bin/python

  # An environment that works is kept, unless another version is asked for. It does not work any more where it was moved.
  facts=$(python_facts "$python" && "$python" -c 'import pip' 2>/dev/null) || facts=
  if [[ -n ${PYTHON:-} || ${facts#* } != "$venv" ]] || ! is_supported "$facts"; then
    chosen=$(choose_python) || exit 1
    if [[ $facts != "$(python_facts "$chosen" | cut -d' ' -f1) $venv" ]]; then
      echo "Making the virtual environment .venv"
      "$chosen" -m venv --clear "$venv" \
        || die "'$chosen -m venv' failed (on Debian and Ubuntu: apt install python3-venv)"
    fi
  fi

  key=$({ python_facts "$python" && cat "$repository/pyproject.toml"; } | sha256sum | cut -d' ' -f1)
  for extra in "$@"; do
    [[ $(cat "$markers/$extra" 2>/dev/null) == "$key" ]] || missing+=("$extra")
  done
  ((${#missing[@]} > 0)) || return 0
  extras=$(IFS=, && echo "$*")
  echo "Installing swapconf[$extras] into .venv (minutes the first time if mindspore is among them)"
  (cd -- "$repository" && "$python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]") \
    || die "the installation failed; run this again to continue it"
  mkdir -p "$markers"
  for extra in "$@"; do
    echo "$key" >"$markers/$extra"
  done
}
