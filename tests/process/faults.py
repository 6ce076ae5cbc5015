"""Programs around which the world goes wrong, as faults.cc has it."""

from cluster import BUILD

LIBRARY = BUILD / "tests/process/libfaults.so"


def routed(routes, command):
    """The command, dialling other ports than it means to: {port: port}."""
    pairs = ",".join(f"{port}={other}" for port, other in routes.items())
    return ["env", f"LD_PRELOAD={LIBRARY}", f"DOWNPOUR_ROUTES={pairs}", *command]


def trapping(command):
    """The command, ended by SIGFPE where its arithmetic overflows."""
    return ["env", f"LD_PRELOAD={LIBRARY}", "DOWNPOUR_TRAP_OVERFLOW=1", *command]


class Orders:
    """What goes wrong from now on for those who obey."""

    def __init__(self, folder):
        self.file = folder / "faults"

    def obeyed(self, command):
        return ["env", f"LD_PRELOAD={LIBRARY}", f"DOWNPOUR_FAULTS={self.file}", *command]

    def give(self, *words):
        """All at once, since it is read at any moment."""
        draft = self.file.with_suffix(".new")
        draft.write_text(" ".join(map(str, words)))
        draft.rename(self.file)

    def recall(self):
        self.file.unlink()

    @property
    def given(self):  # and not carried out yet, if it is an order to die
        return self.file.exists()
