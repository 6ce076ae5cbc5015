"""`python -m MODULE WORDS` in a fork of this interpreter, which has torch already: to import it takes a second.

What a fresh interpreter has otherwise is made again: its arguments, environment, path and open files, its own modules
and the state of its draws. What a test says of threads, or of torch that is not there, needs a fresh one.
"""

import atexit
import gc
import importlib
import os
import random
import runpy
import subprocess
import sys
import threading

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as the child has it; and no thread is lost by a fork
import numpy
import torch

PATH = sys.path[1:]  # behind the folder of the script
DRAWS = torch.get_rng_state()
PACKAGES = {name.partition(".")[0] for name in sys.modules} - {"downpour"}


def start(module, words, environment, keep=(), cwd=None, **pipes):
    """A subprocess.Popen of it, in which the descriptors `keep` stay open."""

    def become():
        gc.freeze()  # nothing of the tests may close a descriptor by a number that is another's by then,
        atexit._clear()  # nor take their folders away
        descriptors = {int(name) for name in os.listdir("/proc/self/fd")}
        for descriptor in descriptors - {0, 1, 2, *keep}:
            try:
                os.close(descriptor)
            except OSError:  # that of the listing
                pass
        os._exit(_run(module, words, environment))

    return subprocess.Popen([sys.executable], preexec_fn=become, pass_fds=keep, cwd=cwd, **pipes)


def _run(module, words, environment):
    """The exit status."""
    os.environ.clear()
    os.environ.update(environment)
    # Not closed with what the program puts in their place: those of an interpreter never are.
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)
    sys.argv = [module, *words]
    sys.path[:] = [os.getcwd(), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *PATH]
    for name in [name for name in sys.modules if name.partition(".")[0] not in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()
    random.seed()
    numpy.random.seed()
    torch.set_rng_state(DRAWS)
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            status = ended.code or 0
        else:
            print(ended.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return status & 0xFF
