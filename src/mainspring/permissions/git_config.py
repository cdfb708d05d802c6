"""Find the settings of a git repository that could make a read-only command run a program."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from mainspring.lazy import lazy_re

_HARMLESS = lazy_re(
    r"""(?x)
    core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|quotepath
        |abbrev|compression|loosecompression|preloadindex|untrackedcache|longpaths|protecthfs|protectntfs|checkstat|trustctime
        |commentchar|commentstring|whitespace|sparsecheckout|sparsecheckoutcone|splitindex|fscache|multipackindex|commitgraph
        |sharedrepository|bigfilethreshold|deltabasecachelimit|packedgitlimit|packedgitwindowsize|fsync|fsyncmethod|fsyncobjectfiles
        |notesref|warnambiguousrefs|maxtreedepth|usereplacerefs|createobject|hidedotfiles|packedrefstimeout|filesreflocktimeout)
    | (?:color|advice|init|user|pull|push|fetch|rebase|column|status|help|grep|feature|index|gc|pack|maintenance|author|committer
        |rerere|tag|versionsort|apply|commitgraph|i18n|safe)\.(?:[a-z0-9-]+|.*\.[a-z0-9-]+)
    | branch\..*
    | blame\.(?:blankboundary|coloring|date|markignoredlines|markunblamablelines|showemail|showroot)
    | format\.(?:attach|coverletter|encodeemailheaders|from|headers|notes|numbered|signoff|subjectprefix|suffix|thread|to|cc|useautobase)
    | diff\.(?:renames|algorithm|noprefix|mnemonicprefix|colormoved|colormovedws|context|interhunkcontext|wserrorhighlight|renamelimit
        |indentheuristic|ignoresubmodules|relative|statgraphwidth|statnamewidth|suppressblankempty|wordregex|tool|guitool|autorefreshindex
        |.*\.(?:xfuncname|funcname|wordregex|binary|algorithm))
    | merge\.(?:conflictstyle|ff|log|renames|renamelimit|stat|tool|guitool|autostash|directoryrenames|verbosity)
    | (?:difftool|mergetool)\.(?:prompt|keepbackup|keeptemporaries|writetotemp|hideresolved|trustexitcode)
    | log\.(?:date|decorate|follow|abbrevcommit|mailmap|excludedecoration|initialdecorationset|graphcolors)
    | commit\.(?:gpgsign|verbose|cleanup|status)
    | notes\.(?:displayref|mergestrategy|rewriteref|rewritemode|.*\.mergestrategy)
    | remote\..*\.(?:fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter|skipfetchall|skipdefaultupdate
        |gh-resolved|glab-resolved)
    | remote\.pushdefault
    | url\.(?!(?:ext|fd)::).*\.(?:insteadof|pushinsteadof) | http\.(?:.*\.)?(?:extraheader|sslverify|postbuffer|version|proxy|lowspeedlimit|lowspeedtime)
    | credential\.(?:.*\.)?(?:username|usehttppath)
    | submodule\.(?:active|recurse|fetchjobs|propagatebranches|alternatelocation|alternateerrorstrategy)
    | submodule\..*\.(?:url|active|branch|path|ignore|shallow|fetchrecursesubmodules)
    | extensions\.(?:objectformat|compatobjectformat|partialclone|worktreeconfig|refstorage|noop|noop-v1|preciousobjects|relativeworktrees)
    | lfs\.(?:repositoryformatversion|url|locksverify|concurrenttransfers|fetchinclude|fetchexclude|fetchrecent.*|prune.*)
    | lfs\..*\.(?:access|locksverify)
    | (?:gui|github|gitlab|hub|gitflow|git-town|gitbutler|branchless|cola|tig|vscode|svn-remote|svn|oh-my-zsh|bash|codespaces-theme)\..*"""
)
"""Settings that run nothing and open no file, whatever their value is.

All other settings are unknown.
"""

_BOOLEAN = r"(?i:true|false|yes|no|on|off|0|1|)"
_PROGRAM = r"[A-Za-z][\w+-]*(?: -[\w-]+(?:=\w+)?)*"
"""The bare name of a program, found on the user's PATH, with options."""

_BY_VALUE = [
    (lazy_re(key), lazy_re(value))
    for key, value in (
        (r"core\.fsmonitor|pager\.[a-z-]+", _BOOLEAN),
        (r"log\.showsignature", r"(?i:false|no|off|0)"),
        (r"core\.(?:pager|editor)|pager\.[a-z-]+|sequence\.editor|gui\.editor|interactive\.difffilter", _PROGRAM),
        (r"core\.sshcommand", r"ssh(?: -i [\w~./-]+| -F /dev/null| -o IdentitiesOnly=(?:yes|no)| -[v46])*"),
        (r"credential\.(?:.*\.)?helper", r"[A-Za-z][\w-]*|!gh auth git-credential|"),
        (r"gpg\.format", r"openpgp|x509|ssh"),
        (r"gpg\.program|gpg\.(?:openpgp|x509|ssh)\.program", r"gpg2?|gpgsm|ssh-keygen"),
        (r"diff\.submodule", r"short|log"),
        (r"remote\..*\.(?:url|pushurl)", r"(?!(?:ext|fd)::)[^\0]*"),
        (r"core\.hookspath", r"[^\0]*"),
        (r"core\.worktree", r"[^\0]+"),
        (r"submodule\..*\.update", r"checkout|rebase|merge|none"),
        (r"blame\.ignorerevsfile", r"\.?[\w-]*ignore-?revs?"),
        (r"format\.pretty|pretty\.[a-z0-9-]+", r"(?!.*(?:%[-+ ]?G|%\())[^\0]*"),
        (r"filter\.lfs\.clean", r"git-lfs clean -- %f"),
        (r"filter\.lfs\.smudge", r"git-lfs smudge(?: --skip)? -- %f"),
        (r"filter\.lfs\.process", r"git-lfs filter-process(?: --skip)?"),
        (r"filter\.lfs\.required", _BOOLEAN),
    )
]
"""Settings that may name a program or a file, and the values that are harmless.

They name a program of the user's PATH that reading commands do not start, or what git's own installer writes.
"""

_HEADER = lazy_re(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:\\.|[^"\\])*)")?\s*\]')
_ENTRY = lazy_re(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


class GitSettings(Struct, frozen=True):
    """The settings of one configuration file that affect read-only commands.

    Attributes:
        unusual: The first setting that may run something; empty if all are known to be harmless.
        worktrees: The values of ``core.worktree``.
        hook_folders: The values of ``core.hooksPath``.
        fetches: Whether git fetches missing objects from a remote.
    """

    unusual: str = ""
    worktrees: tuple[str, ...] = ()
    hook_folders: tuple[str, ...] = ()
    fetches: bool = False


def read_settings(text: str) -> GitSettings:
    """Check the text of a git configuration file."""
    worktrees: list[str] = []
    hook_folders: list[str] = []
    fetches = False
    try:
        for key, value in _entries(text):
            if not is_harmless_setting(key, value):
                return GitSettings(key[:80])
            if key == "core.worktree":
                worktrees.append(value)
            elif key == "core.hookspath":
                hook_folders.append(value)
            elif key == "extensions.partialclone" or (key.startswith("remote.") and key.endswith(".promisor")):
                fetches = True
    except ValueError as error:
        return GitSettings(str(error)[:80])
    return GitSettings("", tuple(worktrees), tuple(hook_folders), fetches)


def is_harmless_setting(key: str, value: str) -> bool:
    """Return True if a setting cannot make a read-only command run something.

    Args:
        key: The name, with section and name in lower case.
        value: The value; empty for a setting without one.
    """
    if _HARMLESS.fullmatch(key):
        return True
    return any(names.fullmatch(key) and values.fullmatch(value) for names, values in _BY_VALUE)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Return the settings in a file.

    Raises:
        ValueError: With the line, if git may read the file in another way.
    """
    section = ""
    for line in text.removeprefix("\ufeff").split("\n"):  # git ends a line at nothing else
        rest = line.strip()
        header = _HEADER.match(rest)
        if header:
            section = header[1].casefold() + (f".{header[2]}" if header[2] is not None else "")
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(rest)
        if entry is None or rest.endswith("\\"):
            raise ValueError(rest)
        yield f"{section}.{entry[1].casefold()}", _unquoted(entry[2] or "", rest)


def _unquoted(text: str, line: str) -> str:
    found: list[str] = []
    quoted = False
    characters = iter(text)
    for character in characters:
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            escape = next(characters, "")
            if escape not in _ESCAPES:
                raise ValueError(line)
            found.append(_ESCAPES[escape])
        elif character in "#;" and not quoted:
            break
        else:
            found.append(character)
    if quoted:
        raise ValueError(line)
    return "".join(found).strip()
