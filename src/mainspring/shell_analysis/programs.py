"""What is known about programs, as data: which run other commands, which run code, which change files."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mainspring.lazy import lazy_re


class Wrapper(Struct, frozen=True):
    """A program that runs the command in its arguments.

    Attributes:
        flags: Options without a value that change nothing about what is run.
        valued: Options with a value of which that holds too.
        operands: How many words stand before the command.
        optional: Options with a value only behind ``=``.
        numeric: Whether ``-10`` is an option.
        plain: Whether the command runs as it would without the wrapper, so that a rule for it is enough.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    optional: frozenset[str] = frozenset()
    numeric: bool = False
    plain: bool = True


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: Mapping[str, Wrapper] = {
    "time": Wrapper(_set("-p")),  # the shell knows no other option and would run what follows
    "nohup": Wrapper(),
    "nice": Wrapper(valued=_set("-n --adjustment"), numeric=True),
    "ionice": Wrapper(_set("-t --ignore"), _set("-c -n --class --classdata")),
    "timeout": Wrapper(
        _set("-v --foreground --preserve-status --verbose"), _set("-s -k --signal --kill-after"), operands=1
    ),
    "gtimeout": Wrapper(
        _set("-v --foreground --preserve-status --verbose"), _set("-s -k --signal --kill-after"), operands=1
    ),
    "stdbuf": Wrapper(valued=_set("-i -o -e --input --output --error")),
    "unbuffer": Wrapper(_set("-p")),
    "setsid": Wrapper(_set("-c -f -w --ctty --fork --wait")),
    "chronic": Wrapper(_set("-v -e")),
    "command": Wrapper(_set("-p")),
    "builtin": Wrapper(),
    "exec": Wrapper(_set("-c -l"), _set("-a")),
    "env": Wrapper(_set("-i - -v -0 --ignore-environment --debug"), _set("-u --unset")),
    "xargs": Wrapper(
        _set("-0 -r -t -x --null --no-run-if-empty --verbose --exit"),
        _set("-n -P -I -L -d -E -s --max-args --max-procs --delimiter --max-chars"),
        optional=_set("--replace --max-lines"),
    ),
    "sudo": Wrapper(_set("-n -E -H -k -S -b -i -s"), _set("-u -g -p -C -D -h --user --group"), plain=False),
    "doas": Wrapper(_set("-n -s"), _set("-u -C"), plain=False),
    "busybox": Wrapper(plain=False),
    "toybox": Wrapper(plain=False),
    "npx": Wrapper(plain=False),
    "bunx": Wrapper(plain=False),
    "uvx": Wrapper(plain=False),
    "fakeroot": Wrapper(plain=False),
    "xvfb-run": Wrapper(_set("-a"), plain=False),
    "strace": Wrapper(_set("-f -c"), plain=False),
    "ltrace": Wrapper(_set("-f -c"), plain=False),
    "valgrind": Wrapper(plain=False),
}
"""Programs that run the command in their arguments."""

SUBCOMMAND_WRAPPERS: Mapping[str, frozenset[str]] = {
    "uv": _set("run"), "poetry": _set("run"), "pipenv": _set("run"), "pdm": _set("run"), "hatch": _set("run"), "rye": _set("run"),
    "pipx": _set("run"), "pixi": _set("run"), "bundle": _set("exec"), "npm": _set("exec x"), "pnpm": _set("exec dlx"),
    "yarn": _set("exec dlx"), "bun": _set("x"), "direnv": _set("exec"), "mise": _set("exec x"), "rbenv": _set("exec"),
    "pyenv": _set("exec"), "dotenv": _set("run"), "op": _set("run"), "doppler": _set("run"),
}  # fmt: skip
"""Programs of which a subcommand does the same."""

OPAQUE_WRAPPERS = _set(
    "ssh su runuser pkexec gosu chroot unshare nsenter flock script parallel entr watchexec nodemon perf systemd-run setpriv capsh "
    "firejail bwrap proot dbus-run-session torsocks proxychains proxychains4 rlwrap screen tmux at batch crontab tini dumb-init "
    "start-stop-daemon gdb lldb taskset chrt numactl prlimit catchsegv conda mamba micromamba rustup nix nix-shell concurrently "
    "dotenvx setarch linux32 linux64 jobs watchman expect socat ncat nc"
)
"""Programs that run commands, and whose arguments are not taken apart: only a rule that names all of them allows one."""

CONTAINER_RUNNERS: Mapping[str, frozenset[str]] = {
    "docker": _set("exec run compose"), "podman": _set("exec run"), "kubectl": _set("exec run debug"), "nerdctl": _set("exec run"),
    "docker-compose": _set("exec run"), "vagrant": _set("ssh"), "heroku": _set("run"), "fly": _set("ssh"),
}  # fmt: skip
"""The same for subcommands."""

SHELLS = _set("sh bash dash zsh ksh mksh ash fish rbash")

INTERPRETERS: Mapping[str, frozenset[str]] = {
    "python": _set("-u -B -O -OO -s -S -E -I -v -q -b -bb"),
    "pypy": _set("-u -B -O -OO -s -S -E -I -v -q -b"),
    "node": _set("--test --watch --no-warnings"),
    "nodejs": _set("--no-warnings"),
    "deno": frozenset(), "bun": frozenset(), "tsx": frozenset(), "ts-node": frozenset(), "perl": _set("-w -T"), "ruby": _set("-w"),
    "irb": frozenset(), "php": frozenset(), "lua": frozenset(), "luajit": frozenset(), "rscript": _set("--vanilla"),
    "r": frozenset(), "julia": frozenset(), "tclsh": frozenset(), "wish": frozenset(), "osascript": frozenset(),
    "pwsh": frozenset(), "powershell": frozenset(), "cmd": frozenset(), "groovy": frozenset(), "scala": frozenset(),
    "jshell": frozenset(), "ghci": frozenset(), "runghc": frozenset(), "elixir": frozenset(), "erl": frozenset(),
    "swipl": frozenset(), "octave": frozenset(), "racket": frozenset(), "guile": frozenset(), "sbcl": frozenset(),
    "ocaml": frozenset(), "vim": frozenset(), "vi": frozenset(), "nvim": frozenset(), "view": frozenset(), "ex": frozenset(),
    "ed": frozenset(), "emacs": frozenset(), "emacsclient": frozenset(), "sqlite3": frozenset(), "psql": frozenset(),
    "mysql": frozenset(), "bc": frozenset(), "dc": frozenset(), "m4": frozenset(), "source": frozenset(), ".": frozenset(),
}  # fmt: skip
"""Programs that run code, and the options that may stand before a script's name. A rule has to name the script."""

PROMPTS = _set("sqlite3 sqlite psql mysql bc dc ed ex vi vim nvim emacs")
"""Those of them that run what they are given to read, whatever file they are told to open."""

AWK = _set("awk gawk mawk nawk")
SED = _set("sed gsed")

FREE = _set(": true false break continue return shift exit")
"""Builtins that do nothing by themselves; they need no rule."""

PREFIX_BUILTINS = _set("alias unalias hash enable complete compgen bind fc history shopt")
"""Builtins that change what names mean to the shell."""

HARMLESS_VARIABLES = lazy_re(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ)=(?!:?/|(?s:.*)\.\.)(?s:.*)|"  # a path would name a file to read
    r"(?:NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|"
    r"RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|NODE_ENV|GOOS|GOARCH|CGO_ENABLED|DEBIAN_FRONTEND)=(?s:.*)"
)
"""Assignments that may stand before a command without changing what it does."""

CODE_VARIABLES = lazy_re(
    r"BASH_ENV|ENV|PS[0-4]|PROMPT_COMMAND|\w*(?:PAGER|EDITOR|VISUAL|BROWSER|COMMAND|ASKPASS|DIFF|LESSOPEN)"
)
"""Variables whose value is run."""

SHELL_VARIABLES = lazy_re(r"(?!.*_proxy$|npm_|path$|cdpath$|fpath$)[a-z_][a-z0-9_]*")
"""Names that a line may set for itself: lower case, as no program takes them from its environment."""
