"""Versions of MindSpore and mindformers: which texts are versions, what is known of each, and where it is said."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from swapconf.study.study import study_file
from swapconf.upstream import facts
from swapconf.upstream.facts import Installed, Versions
from swapconf.upstream.versions import OFFICIAL_PAIRS, BadVersion, checked, reached, release, same
from swapconf.words.findings import Finding
from tests.helpers import ROOT, invoke

EXAMPLE = ROOT / "configs/llama2_7b/example4_swap_with_recompute.yaml"
R2 = "recomputed_consumer_voids_swap"
NOTHING = Installed(None, None)


def told(versions: Versions, file: Path = EXAMPLE) -> dict[str, Finding]:
    return {finding.rule: finding for finding in study_file(file, versions, {}).findings}


# --- what is a version ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["abc", "99", "", "2", "2.x", "2.9.0 or so", "v2.9.0", "2..9", "1.2.3.4.5", "-2.9"])
def test_what_is_no_version_is_refused(text: str) -> None:
    example = [*OFFICIAL_PAIRS.values()][-2]
    with pytest.raises(BadVersion, match=rf"is not a version of MindSpore; write one such as {example}"):
        checked("mindspore", text)


@pytest.mark.parametrize(("package", "text"), [("mindspore", "0.1"), ("mindspore", "1.9.0"), ("mindformers", "0.8.0")])
def test_one_before_the_first_that_is_known_is_refused(package: str, text: str) -> None:
    with pytest.raises(BadVersion, match="the first that it knows is"):
        checked(package, text)


@pytest.mark.parametrize("text", ["2.9", "2.9.0", "2.9.1", "2.10.0rc1", "2.10.0.dev20261101", "2.9.0+own", "99.0.0"])
def test_one_that_is_or_may_come_is_taken(text: str) -> None:
    assert checked("mindspore", f" {text} ") == text


def test_releases_compare_by_their_numbers() -> None:
    assert release("2.10.0") == (2, 10)
    assert reached("2.10.0", "2.9.0")
    assert not reached("2.9.1", "2.10.0")
    assert reached("nightly", "2.10.0")  # a build of one's own
    assert same("2.9", "2.9.0")
    assert same("2.9.0+own", "2.9.0")
    assert not same("2.9.0rc1", "2.9.0")


@pytest.mark.parametrize("option", ["--mindspore-version", "--mindformers-version"])
@pytest.mark.parametrize("command", [("check",), ("explain",), ("migrate", "--to", "mcore")])
def test_every_command_refuses_what_is_no_version(command: tuple[str, ...], option: str) -> None:
    done = invoke(*command, option, "abc", EXAMPLE)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}': `abc` is not a version" in done.output


# --- what is known of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.7.2", "2.9.0", "2.10.0"])
def test_a_measured_fact_names_the_version(version: str) -> None:
    fact = Versions(mindspore=version).fact(R2)
    assert not fact.value
    assert fact.source.startswith(f"measured with MindSpore {version}: ")


@pytest.mark.parametrize(
    ("version", "newest"),
    [("2.9.1", "2.9.0"), ("2.11.0", "2.10.0"), ("2.8.0", "2.7.2"), ("99.0.0", "2.10.0"), ("nightly", "2.10.0")],
)
def test_the_newest_measured_value_is_carried_forward_and_says_so(version: str, newest: str) -> None:
    fact = Versions(mindspore=version).fact(R2)
    assert not fact.value
    assert fact.source.startswith(f"measured with MindSpore {newest}, not measured for {version}: ")


def test_before_the_first_measured_version_holds_what_is_documented() -> None:
    fact = Versions(mindspore="2.6.0").fact(R2)
    assert fact.value
    assert fact.source.startswith("documented")


def test_only_1_6_0_has_the_variable_for_lazy_inline() -> None:
    needed = {
        version: bool(Versions(mindformers=version).fact("lazy_inline_variable_needed").value)
        for version in ("1.6.0", "1.7.0", "1.8.0", "1.9.0", "2.0.0", "2.1.0", "2.2.0")
    }
    assert [version for version, value in needed.items() if value] == ["1.6.0"]


def test_a_fact_of_measured_versions_never_lacks_its_range() -> None:
    for name in (name for known in facts._KNOWN.values() for name in known):
        for version in ("0.1", "1.6.0", "2.7.2", "2.10.0", "99.0.0", "no version"):
            assert Versions(mindspore=version, mindformers=version).fact(name).source


# --- which versions are in use ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "given", "used", "assumed"),
    [
        (NOTHING, {}, ("2.9.0", "1.9.0"), ("mindspore", "mindformers")),
        (NOTHING, {"mindformers": "1.8.0"}, ("2.7.2", "1.8.0"), ("mindspore",)),
        (NOTHING, {"mindspore": "2.10.0"}, ("2.10.0", "2.0.0"), ("mindformers",)),
        (NOTHING, {"mindspore": "2.9.1"}, ("2.9.1", "1.9.0"), ("mindformers",)),
        (Installed("2.9.0", "1.9.0"), {}, ("2.9.0", "1.9.0"), ()),
        (Installed("2.9.0", "1.9.0"), {"mindformers": "2.0.0"}, ("2.9.0", "2.0.0"), ()),
        (Installed("2.7.2", None), {}, ("2.7.2", "1.8.0"), ("mindformers",)),
    ],
)
def test_given_before_installed_before_the_partner_of_the_other(
    found: Installed, given: dict[str, str], used: tuple[str, str], assumed: tuple[str, ...]
) -> None:
    versions = Versions.among(found, **given)
    assert (versions.mindspore, versions.mindformers, versions.assumed) == (*used, assumed)


# --- where it is said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mindformers", "mindspore"), OFFICIAL_PAIRS.items())
def test_an_official_pair_passes(mindformers: str, mindspore: str) -> None:
    assert "version-pair" not in told(Versions(mindspore=mindspore, mindformers=mindformers))


@pytest.mark.parametrize(
    ("mindformers", "mindspore", "severity"),
    [
        ("1.9.0", "2.7.2", "warning"),
        ("1.9.0", "2.10.0", "warning"),
        ("1.7.0", "2.7.2", "note"),
        ("2.1.0", "2.10.0", "note"),
    ],
)
def test_another_pair_is_told_with_the_official_one(mindformers: str, mindspore: str, severity: str) -> None:
    finding = told(Versions(mindspore=mindspore, mindformers=mindformers))["version-pair"]
    assert finding.severity.value == severity
    assert f"is released for MindSpore {OFFICIAL_PAIRS[mindformers]}, not {mindspore}" in finding.message
    assert ("PyPI does not have MindSpore 2.11.0" in finding.hint) == (mindformers == "2.1.0")


def test_a_pair_of_which_one_is_assumed_is_not_judged() -> None:
    assert "version-pair" not in told(Versions.among(NOTHING, "2.9.1"))
    assert "version-pair" in told(Versions(mindspore="2.9.1"))


def test_a_version_that_nobody_measured_is_named_where_something_is_asked_for(tmp_path: Path) -> None:
    newer = Versions(mindspore="2.11.0", mindformers="2.1.0")
    assert (
        "MindSpore 2.11.0 is newer than any that was measured; what holds for 2.10.0"
        in told(newer)["version-not-measured"].message
    )
    assert "what holds for 2.7.2 is taken" in told(Versions(mindspore="2.8.0"))["version-not-measured"].message
    assert "is older than any" in told(Versions(mindspore="2.6.0"))["version-not-measured"].message
    assert "version-not-measured" not in told(Versions(mindspore="2.10.0", mindformers="2.1.0"))
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text("model: {model_config: {type: LlamaConfig, num_layers: 2}, arch: {type: LlamaForCausalLM}}\n")
    assert told(newer, nothing) == {}


def test_where_the_run_steps_aside_check_says_so() -> None:
    assert told(Versions(mindspore="2.7.0", mindformers="1.6.0"))["version-steps-aside"].severity.value == "warning"
    assert "version-steps-aside" not in told(Versions(mindspore="2.7.1", mindformers="1.7.0"))


QWEN3 = ROOT / "configs/small/qwen3_default_swap.yaml"


@pytest.mark.parametrize(
    ("file", "mindformers", "words"),
    [
        (EXAMPLE, "1.8.0", ""),
        (EXAMPLE, "2.1.0", ""),
        (EXAMPLE, "1.9.0", ""),
        (QWEN3, "1.9.0", ""),
        (EXAMPLE, "1.6.0", "with those of 1.6.0 they were not compared"),
        (QWEN3, "1.8.0", ""),
        (QWEN3, "3.0.0", "with those of 3.0.0 they were not compared"),
    ],
)
def test_operators_of_another_version_are_named_unless_they_were_read_from_it(
    file: Path, mindformers: str, words: str
) -> None:
    found = told(Versions(mindformers=mindformers), file).get("catalog-version")
    assert (found is not None) == bool(words)
    assert found is None or found.message.startswith("the operators of ")
    assert found is None or words in found.message


@pytest.mark.mindspore
def test_the_official_pairs_are_those_of_the_installed_mindformers() -> None:
    spec = find_spec("mindformers")
    assert spec is not None
    assert spec.origin is not None
    shipped = json.loads(Path(spec.origin).with_name("VERSION_MAP.json").read_text(encoding="utf-8"))["mf"]
    assert {name: entry["prefer"] for name, entry in shipped.items()}.items() <= OFFICIAL_PAIRS.items()
