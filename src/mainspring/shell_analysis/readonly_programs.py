"""Read-only commands, as data: for each program the options with which it only reads, and the meaning of its operands.

An option that is not listed here may write, run a program, connect to the network, or name a file that contains file names; so a
command with one asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Operands = Literal["paths", "text", "none", "pattern", "one path", "program"]
"""The meaning of the words that are not options: paths; text that opens nothing; no words; a pattern (or script) and then paths; at
most one path, since a second one would be written; a name that is looked up and not run."""


class ReadonlyProgram(Struct, frozen=True):
    """A program, or a subcommand of one.

    Attributes:
        options: A regular expression for the allowed options, each with its value if that is text.
        valued: Options whose value is the next word and is text.
        operands: The meaning of the other words.
        reads_cwd: Whether it reads its current folder if no path is passed.
        deep: A regular expression for the options with which it shows the content of all files below its paths; ``""``: always.
        tracked: Whether it shows only files that git tracks.
        follows: Whether it follows links on the way.
        names: A regular expression for the options with which it shows names or numbers instead of the content of files, unless another
            option is one of ``content``.
        content: A regular expression for the options with which it shows the content of files in spite of one of ``names``.
        shows: A regular expression for options with a pattern of names that are shown, whatever ignore files contain.
        omits: Options with a pattern of names that are not shown, unless one of ``shows`` follows. With ``-dir`` they are names of folders.
        shows_hidden: A regular expression for the options with which it shows hidden files below its paths; ``""``: always.
        first: A regular expression for the first word, if that selects the action; it is not an operand.
        pattern_options: Options that replace the pattern, so that the first operand is a path.
        clusters: Whether the last of several short options in one word may use the next word as its value.
    """

    options: str = r"(?!)"
    valued: frozenset[str] = frozenset()
    operands: Operands = "paths"
    reads_cwd: bool = False
    deep: str | None = None
    tracked: bool = False
    follows: bool = False
    names: str = r"(?!)"
    content: str = r"(?!)"
    shows: str = ""
    omits: frozenset[str] = frozenset()
    shows_hidden: str = ""
    first: str = ""
    pattern_options: frozenset[str] = frozenset()
    clusters: bool = False


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONG = r"--(?:{})(?:=.*)?"


def _options(short_options: str, *long_options: str) -> str:
    return "|".join([short_options, _LONG.format("|".join(long_options))] if long_options else [short_options])


_TEXT = ReadonlyProgram(r"(?!-)", operands="text")
_ANY = r"-[A-Za-z0-9]+"
_TESTS = ReadonlyProgram(r"-[bcdefghkLnoOprsSuwxz]|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef)")
_SUM = ReadonlyProgram(_options(r"-[btz]+", "tag", "binary", "text", "zero"))
_NO_OPERANDS = ReadonlyProgram(_options(_ANY, "all", "help", "version", "human-readable"), operands="none")

_GREP = ReadonlyProgram(
    _options(
        r"-[acEFGHhiILlnoPqrsTUvwxyZz]+|-[ABCm]\d+|-[acEFGHhiILlnoPqrsTUvwxyZz]*[ABCm]\d+",
        "extended-regexp", "fixed-strings", "basic-regexp", "perl-regexp", "ignore-case", "invert-match", "word-regexp", "line-regexp",
        "count", "colou?r", "files-with(?:out)?-match", "max-count", "only-matching", "quiet", "silent", "no-messages", "byte-offset",
        "with-filename", "no-filename", "line-number", "initial-tab", "null", "after-context", "before-context", "context", "text",
        "binary-files", "recursive", "exclude", "include", "exclude-dir", "line-buffered", "null-data", "regexp",
    ),
    valued=_set(
        "-e -A -B -C -m --regexp --include --exclude --exclude-dir --after-context --before-context --context --max-count "
        "--binary-files"
    ),
    operands="pattern", reads_cwd=True, deep=r"-[A-Za-z]*r[A-Za-z]*\d*|--recursive", pattern_options=_set("-e --regexp"),
    shows="--include", omits=_set("--exclude --exclude-dir"), clusters=True,
)  # fmt: skip
_RG = ReadonlyProgram(
    _options(
        r"-[acFHhiIlnNoPpqsSUvwx0.]+|-[ABCm]\d+|-[tTg][\w*.!]+",
        "count", "count-matches", "fixed-strings", "ignore-case", "smart-case", "case-sensitive", "line-number", "no-line-number",
        "files", "files-with-matches", "files-without-match", "only-matching", "invert-match", "word-regexp", "line-regexp", "hidden",
        "no-heading", "heading", "colors?", "column", "glob", "iglob", "type", "type-not", "max-count", "max-depth", "sort", "sortr",
        "after-context", "before-context", "context", "multiline", "multiline-dotall", "pcre2", "stats", "json", "vimgrep", "trim", "text",
        "quiet", "with-filename", "no-filename", "null", "type-list", "max-columns", "regexp", "passthru", "no-config",
    ),
    valued=_set(
        "-e -A -B -C -m -g -t -T --regexp --glob --iglob --type --type-not --max-count --max-depth --sort --sortr --after-context "
        "--before-context --context --color --colors --max-columns"
    ),
    operands="pattern", reads_cwd=True, deep="", tracked=True, shows=r"-g.*|--i?glob",
    shows_hidden=r"-\w*[.t].*|--(?:hidden|type)(?:=.*)?",
    pattern_options=_set("-e --regexp --files --type-list"), clusters=True,
)  # fmt: skip

READONLY_PROGRAMS: Mapping[str, ReadonlyProgram] = {
    "cat": ReadonlyProgram(_options(_ANY, "number", "show-all", "show-ends", "show-tabs", "squeeze-blank", "number-nonblank")),
    "tac": ReadonlyProgram(), "rev": ReadonlyProgram(),
    "nl": ReadonlyProgram(r"-[bfh][atn]|-[iwv]\d+|-s.+|-n(?:ln|rn|rz)|-p"),
    "head": ReadonlyProgram(_options(r"-\d+|-[ncqvz]+\d*", "lines", "bytes", "quiet", "verbose"), _set("-n -c --lines --bytes")),
    "tail": ReadonlyProgram(_options(r"[-+]\d+|-[ncqvz]+[+-]?\d*", "lines", "bytes", "quiet", "verbose"), _set("-n -c --lines --bytes")),
    "wc": ReadonlyProgram(_options(r"-[lwcmL]+", "lines", "words", "bytes", "chars", "max-line-length")),
    "sort": ReadonlyProgram(
        _options(
            r"-[bdfgiMhnRrVcCmsuz]+|-[kt].+", "numeric-sort", "reverse", "unique", "key", "field-separator", "ignore-case", "stable",
            "human-numeric-sort", "version-sort", "general-numeric-sort", "check", "zero-terminated",
        ),
        _set("-k -t --key --field-separator"),
    ),
    "uniq": ReadonlyProgram(
        _options(r"-[cdDiuz]+|-[fsw]\d+", "count", "repeated", "unique", "ignore-case"), _set("-f -s -w"), operands="one path"
    ),
    "cut": ReadonlyProgram(
        _options(r"-[bcdf].+|-[nsz]+", "fields", "delimiter", "characters", "bytes", "only-delimited", "complement", "output-delimiter"),
        _set("-b -c -d -f --fields --delimiter --characters --bytes --output-delimiter"),
    ),
    "tr": ReadonlyProgram(_options(r"-[cCdst]+", "complement", "delete", "squeeze-repeats"), operands="text"),
    "comm": ReadonlyProgram(_options(r"-[123]+", "nocheck-order", "total")),
    "paste": ReadonlyProgram(_options(r"-[sz]+|-d.+", "serial", "delimiters"), _set("-d --delimiters")),
    "join": ReadonlyProgram(r"-[12aejtv].+|-i", _set("-1 -2 -a -e -j -o -t -v")),
    "fold": ReadonlyProgram(_options(r"-[bs]+|-w\d+", "width", "spaces", "bytes"), _set("-w --width")),
    "fmt": ReadonlyProgram(r"-w?\d+|-[csu]+", _set("-w")),
    "expand": ReadonlyProgram(r"-t\d+|-i", _set("-t")), "unexpand": ReadonlyProgram(r"-a|-t\d+", _set("-t")),
    "column": ReadonlyProgram(_options(r"-[tnx]+|-s.+", "table", "separator"), _set("-s -c -o --separator")),
    "od": ReadonlyProgram(r"-[abcdfhilosxv]+|-[AtNjw].*", _set("-A -t -N -j")),
    "hexdump": ReadonlyProgram(r"-[bcCdovx]+|-[ns]\d+", _set("-n -s")),
    "xxd": ReadonlyProgram(r"-[bpuiCE]+|-[clgs]\d+", _set("-c -l -g -s"), operands="one path"),
    "cmp": ReadonlyProgram(_options(r"-[bls]+|-n\d+", "bytes", "silent", "quiet", "print-bytes", "verbose"), _set("-n")),
    "diff": ReadonlyProgram(
        _options(
            r"-[abBcdeiNnpqstTuwyZEr]+|-[UC]\d+|-x.+", "unified", "context", "brief", "recursive", "ignore-[a-z-]+", "side-by-side",
            "color", "exclude", "width", "suppress-common-lines", "report-identical-files", "text", "new-file", "minimal",
            "strip-trailing-cr", "show-c-function",
        ),
        _set("-U -C -x -W --exclude --width"),
        deep="", follows=True,
    ),
    "file": ReadonlyProgram(_options(r"-[bihk0]+", "brief", "mime", "mime-type", "mime-encoding")),
    "stat": ReadonlyProgram(_options(r"-[Lftx]+|-[cf].+", "format", "printf", "dereference", "terse", "file-system"), _set("-c --format --printf")),
    "ls": ReadonlyProgram(
        _options(
            r"-[A-GI-KM-Za-z1]+", "all", "almost-all", "color", "group-directories-first", "human-readable", "recursive", "reverse", "sort",
            "time", "time-style", "size", "classify", "directory", "full-time", "inode", "ignore", "indicator-style",
        ),
        _set("-I --ignore"), reads_cwd=True,
    ),
    "dir": ReadonlyProgram(r"-[A-GI-KM-Za-z1]+", reads_cwd=True),
    "tree": ReadonlyProgram(r"-[adfhisCDFpugQt]+|-[LIP]\d*|--(?:dirsfirst|noreport|prune|gitignore|du|filesfirst)", _set("-L -I -P"), reads_cwd=True),
    "du": ReadonlyProgram(
        _options(r"-[0abchkmsSx]+|-d\d+", "all", "apparent-size", "bytes", "total", "human-readable", "max-depth", "summarize", "exclude"),
        _set("-d --max-depth --exclude"), reads_cwd=True,
    ),
    "df": ReadonlyProgram(_options(r"-[ahHiklPT]+", "human-readable", "inodes", "total", "output", "print-type")),
    "md5sum": _SUM, "sha1sum": _SUM, "sha224sum": _SUM, "sha256sum": _SUM, "sha384sum": _SUM, "sha512sum": _SUM, "b2sum": _SUM,
    "cksum": ReadonlyProgram(), "sum": ReadonlyProgram(r"-[rs]"),
    "base64": ReadonlyProgram(_options(r"-[di]+|-w\d+", "decode", "wrap", "ignore-garbage"), _set("-w --wrap")),
    "base32": ReadonlyProgram(_options(r"-[di]+|-w\d+", "decode", "wrap"), _set("-w --wrap")),
    "basename": ReadonlyProgram(_options(r"-[az]+|-s.+", "multiple", "suffix", "zero"), _set("-s --suffix"), operands="text"),
    "dirname": ReadonlyProgram(r"-z|--zero", operands="text"),
    "realpath": ReadonlyProgram(_options(r"-[emsqzPL]+", "canonicalize-existing", "canonicalize-missing", "no-symlinks", "quiet", "zero")),
    "readlink": ReadonlyProgram(_options(r"-[femnqsz]+", "canonicalize", "no-newline", "quiet", "zero")),
    "fd": ReadonlyProgram(
        _options(r"-[aFgHiIps01]+|-d\d+|-[etE][\w*.]+", "hidden", "glob", "type", "extension", "max-depth", "exclude", "full-path", "color"),
        _set("-e -t -E -d --type --extension --max-depth --exclude --color"), operands="pattern", reads_cwd=True,
        pattern_options=_set("-e -t --extension --type"),
    ),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP, "rg": _RG,
    "jq": ReadonlyProgram(
        _options(
            r"-[rcesSnCMja]+", "raw-output", "compact-output", "exit-status", "slurp", "sort-keys", "null-input", "tab", "join-output",
            "color-output", "monochrome-output", "raw-input", "ascii-output", "stream", "seq",
        ),
        operands="pattern",
    ),
    "sed": ReadonlyProgram(
        _options(r"-[nErsuz]+", "quiet", "silent", "regexp-extended", "expression"), _set("-e --expression"), operands="pattern",
        pattern_options=_set("-e --expression"),
    ),
    "awk": ReadonlyProgram(r"-F.+", _set("-F"), operands="pattern"),
    "gawk": ReadonlyProgram(r"-F.+", _set("-F"), operands="pattern"),
    "mawk": ReadonlyProgram(r"-F.+", _set("-F"), operands="pattern"),
    "echo": ReadonlyProgram(r"-.*", operands="text"), "printf": _TEXT, "true": _TEXT, "false": _TEXT, "seq": ReadonlyProgram(r"-w|-[fs].+|-?\d+", _set("-f -s"), operands="text"),
    "sleep": _TEXT, "expr": ReadonlyProgram(r"[-+]", operands="text"), "test": _TESTS, "[": _TESTS,
    "pwd": ReadonlyProgram(r"-[LP]", operands="none"), "whoami": _NO_OPERANDS, "arch": _NO_OPERANDS, "nproc": _NO_OPERANDS, "uptime": _NO_OPERANDS,
    "uname": _NO_OPERANDS, "tty": _NO_OPERANDS, "logname": _NO_OPERANDS, "free": _NO_OPERANDS, "lscpu": _NO_OPERANDS, "lsblk": _NO_OPERANDS,
    "groups": ReadonlyProgram(operands="text"), "id": ReadonlyProgram(r"-[ugnGr]+", operands="text"),
    "hostname": ReadonlyProgram(r"-[fsiId]+", operands="none"),
    "lsb_release": ReadonlyProgram(r"-[acdrsi]+", operands="none"),
    "date": ReadonlyProgram(_options(r"-[uRI]+|-I\w+|\+.*", "utc", "iso-8601", "rfc-3339", "rfc-email"), _set("-d --date"), operands="none"),
    "cal": ReadonlyProgram(r"-[\d13jmywh]+", operands="text"),
    "which": ReadonlyProgram(r"-[as]+", operands="program"), "type": ReadonlyProgram(r"-[aftpP]+", operands="program"),
    "tar": ReadonlyProgram(first=r"-?t[vzjJ]*f|-[vzjJ]+tv?f"), "unzip": ReadonlyProgram(first=r"-l|-v|-Z1?"),
}  # fmt: skip
"""The programs, by name."""

VERSION_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("python", "python3", "pip", "pip3", "node", "npm", "ruby", "perl", "php", "gcc", "g++", "cc", "clang", "make", "cmake", "docker",
         "bash", "gh", "curl", "wget", "uv", "ruff", "git", "rg", "jq", "tar", "sed", "grep", "awk", "gawk", "sqlite3", "javac", "java",
         "find", "sort", "ls", "fd", "tree", "ffmpeg", "pandoc", "lua", "Rscript"),
        r"--version",
    ),
    "python": r"-V|-VV|--version", "python3": r"-V|-VV|--version", "node": r"-v|--version", "npm": r"-v|--version",
    "java": r"-version|--version", "javac": r"-version|--version", "pip": r"-V|--version", "pip3": r"-V|--version", "php": r"-v|--version",
    "ruby": r"-v|--version", "perl": r"-v|--version", "gcc": r"--version|-dumpversion|-dumpmachine", "openssl": r"version",
    "curl": r"-V|--version", "rg": r"-V|--version",
}  # fmt: skip
"""Programs that may be asked for their version, and the options to do so.

Omitted on purpose: cargo, rustc, go, dotnet, yarn, pnpm, bundle, and the like, which first read the project to find the program to
run.
"""

_REVISIONS = (
    "oneline", "all", "branches", "tags", "remotes", "merges", "no-merges", "first-parent", "reverse", "since", "after", "until", "before",
    "author", "committer", "grep", "max-count", "skip", "topo-order", "date-order", "author-date-order", "date", "abbrev", "abbrev-commit",
    "no-abbrev-commit", "left-right", "cherry-pick", "cherry", "count", "not", "merge-base", "graph", "decorate", "no-decorate", "pretty",
    "format", "follow", "full-history", "simplify-by-decoration", "source", "invert-grep", "regexp-ignore-case", "max-parents",
)  # fmt: skip
_DIFFS = (
    "stat", "shortstat", "numstat", "dirstat", "summary", "patch", "no-patch", "patch-with-stat", "name-only", "name-status", "colou?r",
    "no-color", "color-words", "word-diff", "word-diff-regex", "cached", "staged", "minimal", "patience", "histogram", "diff-algorithm",
    "ignore-all-space", "ignore-space-change", "ignore-space-at-eol", "ignore-blank-lines", "ignore-cr-at-eol", "unified", "full-index",
    "raw", "check", "relative", "no-renames", "find-renames", "find-copies", "diff-filter", "exit-code", "quiet", "no-ext-diff",
    "no-textconv", "text", "function-context", "inter-hunk-context", "no-prefix", "compact-summary", "color-moved", "pickaxe-regex",
    "pickaxe-all", "binary", "indent-heuristic",
)  # fmt: skip
_CONTENT = (
    r"-[A-Za-z]*[pucmULW][A-Za-z\d]*|-[GS].*"
    r"|--(?:patch|unified|word-diff|color-words|function-context|binary|text|full-index|check|pickaxe).*"
)
_NAMES = r"-s|--(?:stat|shortstat|numstat|dirstat|summary|name-only|name-status|no-patch|raw|compact-summary)(?:=.*)?"
_LOG = ReadonlyProgram(
    _options(r"-\d+|-[abcDEFiMmpPqrRstuwWz]+|-[nU]\d+|-[GSL].+|-[MC]\d+%?", *_REVISIONS, *_DIFFS),
    _set(
        "-n -G -S -L --since --until --after --before --author --committer --grep --max-count --skip --date --diff-filter --word-diff-regex "
        "--diff-algorithm --inter-hunk-context --unified"
    ),
    reads_cwd=True, tracked=True, deep=_CONTENT,
)  # fmt: skip
_DIFF = replace(_LOG, deep="", names=_NAMES, content=_CONTENT)
_REFS = (
    "list",
    "all",
    "remotes",
    "merged",
    "no-merged",
    "contains",
    "sort",
    "format",
    "points-at",
    "column",
    "color",
    "verbose",
    "show-current",
)

READONLY_GIT: Mapping[str, ReadonlyProgram] = {
    "status": ReadonlyProgram(
        _options(
            r"-[sbvzu]+|-u(?:no|normal|all)", "short", "branch", "porcelain", "long", "verbose", "untracked-files", "ignored",
            "ignore-submodules", "show-stash", "ahead-behind", "no-ahead-behind", "renames", "no-renames",
        ),
        reads_cwd=True, deep=r"-[a-z]*v[a-z]*|--verbose.*", tracked=True,
    ),
    "diff": _DIFF, "log": _LOG, "show": _DIFF,
    "shortlog": ReadonlyProgram(_options(r"-[snec]+|-\d+", "summary", "numbered", "email", *_REVISIONS), _set("--since --until --author")),
    "blame": ReadonlyProgram(
        _options(r"-[bcelfnpstwMC]+|-L.+", "line-porcelain", "porcelain", "show-email", "date", "color-lines"), _set("-L")
    ),
    "annotate": ReadonlyProgram(r"-[elfnpstw]+|-L.+", _set("-L")),
    "grep": ReadonlyProgram(
        _options(
            r"-[aciIEFGPhHlLnovqwWz]+|-[ABC]\d+", "count", "ignore-case", "files-with-matches", "files-without-match", "line-number", "name-only",
            "word-regexp", "invert-match", "cached", "column", "show-function", "heading", "break", "color", "and", "or", "not",
        ),
        _set("-e -A -B -C"), operands="pattern", reads_cwd=True, deep="", tracked=True, pattern_options=_set("-e"),
    ),
    "ls-files": ReadonlyProgram(
        _options(r"-[cdmoikstuvz]+", "cached", "deleted", "modified", "others", "ignored", "stage", "exclude-standard", "full-name", "unmerged"),
        reads_cwd=True,
    ),
    "ls-tree": ReadonlyProgram(_options(r"-[drtlz]+", "name-only", "full-name", "full-tree", "long", "abbrev"), reads_cwd=True),
    "branch": ReadonlyProgram(_options(r"-[arv]+|-vv", *_REFS), _set("--contains --merged --no-merged --sort --format --points-at"), operands="none"),
    "tag": ReadonlyProgram(_options(r"-[ln]+\d*", "list", "sort", "format"), _set("-l --list --sort --format"), operands="none"),
    "remote": ReadonlyProgram(r"-v|--verbose", operands="none"),
    "stash list": ReadonlyProgram(_options(r"-\d+", "oneline", "stat", "format", "date")),
    "stash show": ReadonlyProgram(_options(r"-[pu]+", *_DIFFS), deep="", tracked=True, names=_NAMES, content=_CONTENT),
    "worktree list": ReadonlyProgram(r"-v|--porcelain|--verbose", operands="none"),
    "remote get-url": ReadonlyProgram(r"--all|--push"),
    "reflog": ReadonlyProgram(_options(r"-\d+", "oneline", "date"), operands="none"),
    "reflog show": ReadonlyProgram(_options(r"-\d+", "oneline", "date")),
    "rev-parse": ReadonlyProgram(
        _options(
            r"-q", "short", "verify", "quiet", "abbrev-ref", "show-toplevel", "show-prefix", "show-cdup", "git-dir", "is-inside-work-tree",
            "symbolic-full-name", "absolute-git-dir", "all", "branches", "tags", "remotes", "is-bare-repository", "git-common-dir",
        )
    ),
    "rev-list": ReadonlyProgram(_options(r"-\d+|-n\d+", *_REVISIONS), _set("-n --since --until --max-count --author")),
    "describe": ReadonlyProgram(_options(r"(?!)", "tags", "all", "always", "dirty", "abbrev", "long", "match", "exact-match", "contains", "first-parent")),
    "merge-base": ReadonlyProgram(r"--(?:all|octopus|independent|is-ancestor|fork-point)|-a"),
    "name-rev": ReadonlyProgram(r"--(?:tags|name-only|always)"),
    "for-each-ref": ReadonlyProgram(_options(r"(?!)", "count", "sort", "format", "points-at", "merged", "no-merged", "contains"), _set("--count --sort --format --points-at --contains --merged --no-merged"), operands="paths"),
    "show-ref": ReadonlyProgram(r"--(?:heads|tags|head|hash|abbrev|verify|dereference)(?:=\d+)?|-[hdqs]+"),
    "cat-file": ReadonlyProgram(r"-[ptes]", deep="", tracked=True, names=r"-[tes]"),
    "count-objects": ReadonlyProgram(r"-[vH]+", operands="none"),
    "check-ignore": ReadonlyProgram(r"-[vqn]+"), "diff-tree": _LOG, "diff-index": _LOG, "diff-files": _LOG,
    "cherry": ReadonlyProgram(r"-v"), "var": ReadonlyProgram(operands="none"), "version": ReadonlyProgram(operands="none"),
    "config --get user.name": ReadonlyProgram(operands="none"), "config --get user.email": ReadonlyProgram(operands="none"),
    "config user.name": ReadonlyProgram(operands="none"), "config user.email": ReadonlyProgram(operands="none"),
}  # fmt: skip
"""The subcommands of git."""

FIND_FLAGS = _set(
    "-print -print0 -empty -true -false -not -o -or -a -and ! ( ) , -prune -depth -mount -xdev -ls -readable -writable -executable "
    "-daystart -noleaf -nouser -nogroup -quit -H -P"
)
FIND_TEXT_OPTIONS = _set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -size -mtime -mmin -atime -amin -ctime -cmin -newermt "
    "-perm -user -group -maxdepth -mindepth -printf -links -inum -lname -ilname -fstype -uid -gid"
)
FIND_PATH_OPTIONS = _set("-newer -anewer -cnewer -samefile")
"""Arguments of ``find``: without a value, with a text, with a path."""
