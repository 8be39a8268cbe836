"""The rules that have no module of their own: what is found while a file is read. (severity, manual page) by name."""

from __future__ import annotations

# the file itself
READING: dict[str, tuple[str, str]] = {
    "file-not-found": ("error", "The file does not exist, is a folder, or may not be read."),
    "yaml-encoding": ("error", "The file is not UTF-8; the place of the first wrong byte is given."),
    "yaml-empty": ("error", "The file holds no value."),
    "yaml-syntax": ("error", "The file is not valid YAML, holds a second document, or has a key that is not text."),
    "yaml-not-mapping": ("error", "The top level is a list or a single value."),
    "yaml-too-large": ("error", "More than 100,000 bytes or 50,000 YAML events."),
    "yaml-too-deep": ("error", "Nested deeper than 60 levels."),
    "yaml-alias-bomb": ("error", "Aliases or merge keys that expand to more than 50,000 values, or that contain "
                                 "themselves."),
    "yaml-huge-number": ("error", "A number of more than 40 characters."),
    "yaml-tag": ("error", "A tag such as `!!python/tuple`, which mindformers' safe loader refuses."),
    "yaml-duplicate-key": ("error", "A key that stands twice in one mapping; PyYAML keeps the last value silently."),
    "yaml-trap": ("warning, note", "A plain value that YAML 1.1 reads as something else: `010` (octal), `1:30` (base "
                                   "60), `1e3` (text); a note for `yes`, `no`, `on`, `off` (booleans)."),
}

# structure of the two sections
STRUCTURE: dict[str, tuple[str, str]] = {
    "bad-type": ("error", "A value of the wrong type, such as `swap: 1`, `layers: 2`, `layers: (0, 1)` or "
                          "`backward_prefetch: True`."),
    "bad-value": ("error", "A value of the right type that cannot be used, such as `backward_prefetch: 0`."),
    "too-many-mistakes": ("error", "A section with 1,000 structural mistakes or more: the others are not told, and "
                                   "nothing else is said of the section before these are corrected."),
    "missing-key": ("error", "An entry of `layer_swap` or `op_swap` without `layers`, `backward_prefetch` or "
                             "`op_name`."),
    "unknown-key": ("error, warning", "A key that the section does not have: mindformers stops (error); one that an "
                                      "entry does not have: mindformers ignores it (warning)."),
    "recompute-form": ("error", "A form of `recompute`, `select_recompute` or their relatives that mindformers does "
                                "not take, or not together with swap: counts are flat or nested one level without "
                                "swap, layer indices are flat with it."),
    "section-given-twice": ("error", "Settings both in `swap_config` (or `recompute_config`) and in "
                                     "`model.model_config`: the legacy and the mcore dialect in one file."),
    "two-dialects": ("error", "A PyNative section (`swap`, `recompute`, `recompute_comm`) beside one of graph mode "
                              "(`swap_config`, `recompute_config`, the mcore keys of `model_config`), or one of graph "
                              "mode in a PyNative YAML (one with `training` or `parallelism`)."),
    "pynative-form": ("error, warning, note", "In a PyNative YAML: an entry of `layer_swap` after the first, which "
                      "mindformers 2.0.0 does not read; a mode or switch without the list that it needs, or a list "
                      "without the mode that reads it; a swap that names nothing."),
    "section-misplaced": ("error, warning", "Swap or recompute settings where nothing reads them: keys of a section at "
                          "the top level, a section below `model`, `context` or `parallel_config`, the mcore keys in "
                          "the `model.model_config` of a legacy model. A warning where they ask for nothing."),
    "unknown-section": ("error, warning", "A section of the top level whose name is nearly `swap_config`, "
                        "`recompute_config` or one of PyNative's: mindformers ignores it. A warning where it asks for "
                        "nothing."),
    "section-empty": ("warning", "A section without content: its keys were probably meant to be indented below it."),
    "pretrained-config": ("note", "The folder of `pretrained_model_dir` holds no config.json that can be read. "
                          "mindformers takes the model from there, and `model.model_config` over it."),
    "odd-indentation": ("error", "A key indented with a character that is no space to YAML, such as U+3000 from a "
                                 "Chinese input method or the no-break space U+00A0, which becomes a part of its "
                                 "name."),
}

# what is said beside a YAML: the settings of its repository, and the comments that silence a rule
CHECKING: dict[str, tuple[str, str]] = {
    "settings": ("error, warning", "Something in `.swapconf.toml`, or in `[tool.swapconf]` of pyproject.toml, that "
                                   "cannot be used: not TOML, an unknown key, rule, family or severity. In a run, a "
                                   "warning where it names other versions than are installed."),
    "ignore-unused": ("warning", "A comment `# swapconf: ignore[rule] reason` that silences nothing."),
    "ignore-without-reason": ("warning", "A comment `# swapconf: ignore[rule]` that does not say why."),
    "ignore-unknown-rule": ("error", "A comment `# swapconf: ignore` without a rule in brackets, or with one that does "
                                     "not exist."),
    "passed-otherwise": ("error", "In a run, mindformers passes another number of layers, other pipeline stages, "
                                  "another swap or another recompute to the layers than the config had when it was "
                                  "read: a script changed it in between. The run stops before a layer is built."),
    "no-training-yaml": ("warning", "A folder that was to be checked holds no training YAML that git does not "
                                    "ignore."),
}

# rewriting a file
REWRITING: dict[str, tuple[str, str]] = {
    "migrate-layout": ("error", "`swapconf migrate` changes lines of the sections for swap and recompute only, and "
                                "these cannot be rewritten so: a section in a flow mapping, or an anchor or merge key "
                                "that reaches into one."),
}
