"""How long a program takes to start: whole processes, against what they can't do without.

The first vector from Python, with the biLM that ships, is held against `import torch` alone. The plugin's commands are
held against AllenNLP's own start: the same command line without the plugin, but with its stand-ins for what isn't
installed, since AllenNLP doesn't start without those.
"""

import subprocess
import sys
import tempfile
from functools import partial

from interleave import compare, interleaved, new_parser, parse, report

IMPORT_TORCH = "import torch"
FIRST_VECTOR = "from elmo_plugin import ElmoEmbedder; ElmoEmbedder().embed_sentence(['The', 'first'])"
ALLENNLP = "import sys; sys.argv = ['allennlp', {command!r}, '--help']; from allennlp.__main__ import run; run()"
WITHOUT_PLUGIN = "import elmo_plugin_startup; elmo_plugin_startup.AFTER_LOADING.clear()\n"


def run_python(code: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)


def main() -> None:
    arguments = parse(new_parser(__doc__, repeats=5, quick="two turns, to see that it works"))
    own_start = WITHOUT_PLUGIN + ALLENNLP.format(command="train")
    claims = {
        "the first vector": (FIRST_VECTOR, "import torch", IMPORT_TORCH),
        "allennlp elmo --help": (ALLENNLP.format(command="elmo"), "AllenNLP's own start", own_start),
        "allennlp train --help": (ALLENNLP.format(command="train"), "AllenNLP's own start", own_start),
    }
    results = {}
    for name, (code, baseline, baseline_code) in claims.items():
        contenders = {"elmo_plugin": partial(run_python, code), baseline: partial(run_python, baseline_code)}
        seconds = interleaved(contenders, arguments.repeats)
        results[name] = compare(seconds, "elmo_plugin", baseline, units=60)
    report(results, arguments.output)


if __name__ == "__main__":
    main()
