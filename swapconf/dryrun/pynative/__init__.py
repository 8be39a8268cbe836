"""PYNATIVE YAML -> TRACE: training steps of mindformers' PyNative trainer, dry-run on a simulated device."""
