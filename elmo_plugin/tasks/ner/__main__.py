"""`python -m elmo_plugin.tasks.ner predictions.txt`: prints conlleval's report on a file of predictions."""

import argparse

from elmo_plugin.tasks.ner import conlleval


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m elmo_plugin.tasks.ner", description=__doc__)
    parser.add_argument("predictions", help="lines 'token gold predicted', with a blank line after each sentence")
    print(conlleval.count_file(parser.parse_args().predictions).report(), end="")


if __name__ == "__main__":
    main()
