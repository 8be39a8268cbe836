"""PLUGIN LIBRARIES -> SHIM: one small library that stands in for CANN, so that MindSpore's Ascend plugin loads.

MindSpore links its Ascend plugin against CANN, but with ``MS_SIMULATION_LEVEL`` it simulates the device itself and
needs CANN's functions to exist, not to work. Without that variable a process with the shim stops with ``Get Device MOC
memory size failed``: no training can run on it by mistake.

In reading order: ``elf`` (what a library needs), ``libraries`` (which ones are loaded), ``symbols`` (what a stand-in
must do), ``plan`` (all of them), ``source`` (in C), ``compiler``, ``cache``, ``build``.
"""
