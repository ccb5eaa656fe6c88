"""`python -m elmo_plugin.settings`: prints the environment variables that training configs read."""

from elmo_plugin.settings import as_table

if __name__ == "__main__":
    print(as_table())
