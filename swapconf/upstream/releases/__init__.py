"""Each release of MindSpore and mindformers that was looked at: one file says what it changed.

A new release is one more file, and its line here.
"""

from __future__ import annotations

from swapconf.upstream.release import Release
from swapconf.upstream.releases import (
    documented,
    mindformers_1_6_0,
    mindformers_1_7_0,
    mindformers_1_8_0,
    mindformers_1_9_0,
    mindformers_2_0_0,
    mindformers_2_1_0,
    mindspore_2_7_1,
    mindspore_2_7_2,
    mindspore_2_9_0,
    mindspore_2_10_0,
)

# From old to new.
MINDSPORE: tuple[Release, ...] = (
    documented.MINDSPORE,
    mindspore_2_7_1.RELEASE,
    mindspore_2_7_2.RELEASE,
    mindspore_2_9_0.RELEASE,
    mindspore_2_10_0.RELEASE,
)
MINDFORMERS: tuple[Release, ...] = (
    documented.MINDFORMERS,
    mindformers_1_6_0.RELEASE,
    mindformers_1_7_0.RELEASE,
    mindformers_1_8_0.RELEASE,
    mindformers_1_9_0.RELEASE,
    mindformers_2_0_0.RELEASE,
    mindformers_2_1_0.RELEASE,
)
# Older ones that nothing is known of but their partner (VERSION_MAP.json of mindformers 2.1.0).
OLDER_PAIRS = {"1.2.0": "2.3.0", "1.3.0": "2.4.0", "1.3.2": "2.4.10", "1.5.0": "2.6.0"}
# The pair that most was measured with; taken where nothing says which versions a run has.
REFERENCE = {"mindspore": "2.9.0", "mindformers": "1.9.0"}
