"""The process that runs the model. Run as a script, never imported: ``python -I server_process.py PATH...``.

The paths are added to the module search path, because an isolated Python ignores the user's.

The first line of stdin is the configuration, so that the key is not visible in the process list. The first line of stdout is
``{"address": ...}``; it is missing if the model cannot be served, and stderr contains the reason. After that stdin stays open
and silent; its end, or another parent process, means that the parent has exited, and the process exits too.
"""

import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

_PARENT_CHECK = 2.0


def main() -> None:
    """Load the model and serve it until the parent exits."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent, which may only abort a response
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Native code may print; only the line above belongs on stdout.
    config: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    server = _serve(config)  # Exceptions are printed to stderr, which the parent reads if the address is missing.
    report.write(json.dumps({"address": server.listening_address}) + "\n")
    report.close()
    threading.Event().wait()


def _exit_with_parent(parent: int) -> None:
    threading.Thread(target=_exit_on_stdin_eof, daemon=True).start()
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_PARENT_CHECK)
    os._exit(0)


def _exit_on_stdin_eof() -> None:
    while os.read(0, 1):  # Not through sys.stdin, whose lock would block the exit of the main thread.
        pass
    os._exit(0)


def _serve(config: dict[str, Any]) -> Any:
    engine: Any = importlib.import_module("xllamacpp")  # untyped package
    params = engine.CommonParams()
    params.model.path = config["model"]
    params.api_keys = [config["key"]]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = config["context"]
    params.n_parallel = 1
    params.cache_ram_mib = config["cache_mib"]
    params.verbosity = 1  # Errors only: they contain the reason why a file cannot be loaded.
    params.fit_params = False
    params.offline = True
    params.sse_ping_interval = 10
    if config["threads"]:
        params.cpuparams.n_threads = config["threads"]
        params.cpuparams_batch.n_threads = config["threads"]
    return engine.Server(params)


if __name__ == "__main__":
    sys.path[:0] = [folder for folder in sys.argv[1:] if folder not in sys.path]
    main()
