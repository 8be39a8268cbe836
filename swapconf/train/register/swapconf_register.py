"""The module that mindformers loads with ``--register_path``: loading it puts swapconf in LayerSetting's place.

In the YAML: ``trainer: {auto_register: swapconf_register.Swapconf}``; on the command line:
``--register_path "$(swapconf register-path)"``. The class is only there to be named.
"""

import swapconf

swapconf.install()


class Swapconf:
    """Named by ``auto_register``; does nothing itself."""
