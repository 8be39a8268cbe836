"""STUDY -> the command that makes the trace which a what-if needs."""

from __future__ import annotations

from swapconf.study.study import Study

_SWITCHES = ("swap_config.swap", "recompute_config.recompute", "recompute_config.select_recompute")
_COMMUNICATION = "select_comm_recompute"


def making(study: Study) -> str:
    """What the YAML has no section for, it need not switch off."""
    sections = study.document.root.entries
    switches = [*_SWITCHES, *[f"recompute_config.{_COMMUNICATION}"] * bool(study.config.recompute.select_comm)]
    off = [f"--set {switch}=False" for switch in switches if switch.partition(".")[0] in sections]
    code = ["--register-path CODE"] * bool(study.own_code)
    return " ".join(["swapconf dryrun", study.config.file, *code, *off, "--keep DIR"])
