"""Lists of mutations: what tools/dev/mutate tries, and what the linter holds against the tree."""

import tomllib


def read_lists(folder):
    """(file, mutation) of each mutation, with what its list's [default] says of all."""
    for file in sorted(folder.glob("*.toml")):
        listed = tomllib.loads(file.read_text())
        for mutation in listed["mutation"]:
            yield file, listed.get("default", {}) | mutation
