"""STUDY + TRACE -> STUDY: of a model that the catalog does not know, with the layers that a run of it has read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swapconf.config.config import Config
from swapconf.models import own_layers
from swapconf.models.network import Network
from swapconf.study.study import Study, network_of, with_layers

_NO_ENVIRONMENT: Mapping[str, str] = {}


def as_run(studied: Study, trace: Path, environment: Mapping[str, str] = _NO_ENVIRONMENT) -> Study:
    """``trace``: the folder of a rank. Itself where the catalog knows the model, or the trace tells nothing of it."""
    if studied.network is None or studied.network.is_known:
        return studied
    layers = own_layers.read(trace)
    return studied if layers is None else with_layers(studied, layers, environment)


def network_for(studied: Study, config: Config) -> Network:
    """The network of the same model with another strategy: some cells of known families are built otherwise then; of
    another model a run has read the layers."""
    network = studied.network
    assert network is not None
    if network.family is None:
        return network
    return network_of(config, studied.versions, studied.settings.families) or network
