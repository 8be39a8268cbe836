"""PYNATIVE YAML -> TRACE: training steps of mindformers' PyNative trainer, rehearsed on a simulated device."""
