"""WHAT MINDSPORE PRINTS EARLY -> func graphs, on which its own later passes can be mirrored."""
