"""What AllenNLP imports as one of its default plugins: registers what the plugin brings.

A module of its own, so that an installation that can't be imported is reported and AllenNLP's own commands still work.
"""

import logging

import elmo_plugin_startup

try:
    elmo_plugin_startup.import_plugin()
except Exception as error:
    logging.getLogger(__name__).error(
        "elmo-plugin is installed but can't be imported, so its commands and 'elmo::' names are missing: %s: %s "
        "(for the traceback: python -c 'import elmo_plugin.plugin')",
        type(error).__name__,
        error,
    )
