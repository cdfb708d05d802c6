"""Scripts for repositories: hostile ones, whose commands must ask, and ordinary ones, whose commands must not.

A script starts in a repository ``main`` with two commits; next to it are ``other``, a repository with a secret, and ``lib``. ``$RUN``
is a program that leaves a trace and fails; ``$SECRET`` is the text that must not be shown.
"""

import os
import subprocess
from pathlib import Path

SECRET = "hunter2-is-the-password"

BASE = f"""
git init -q lib; (cd lib && echo x > l && git add . && git commit -qm lib)
git init -q other; (cd other && echo {SECRET} > s && git add . && git commit -qm other && git branch side)
git init -q main; cd main; mkdir src; echo one > notes.md; echo 1 > src/a; git add .; git commit -qm first
echo two >> notes.md; echo 2 > src/b; git add .; git commit -qm second; echo three >> notes.md
"""

READS = ("git status", "git log --oneline -3", "git diff", "git show HEAD")

HOSTILE: dict[str, str] = {
    # Settings that name a program, in every place that git reads.
    "fsmonitor": 'git config core.fsmonitor "$RUN"',
    "fsmonitor in another case": 'printf "[CoRe]FSMonitor=%s\\n" "$RUN" >> .git/config',
    "fsmonitor quoted": 'printf "[core]\\n\\tfsmonitor = \\"%s\\"\\n" "$RUN" >> .git/config',
    "commondir in .git": 'mkdir -p planted; cp -r .git/. planted; git config -f planted/config core.fsmonitor "$RUN"; echo ../planted > .git/commondir',
    "commondir to a bare repository": 'git clone -q --bare . bare; git config -f bare/config core.bare false; git config -f bare/config core.fsmonitor "$RUN"; echo ../bare > .git/commondir',
    "config.worktree": 'git config extensions.worktreeConfig true; git config --worktree core.fsmonitor "$RUN"',
    "include": 'printf "[core]\\n\\tfsmonitor = %s\\n" "$RUN" > inc; git config include.path ../inc',
    "includeIf": 'printf "[core]\\n\\tfsmonitor = %s\\n" "$RUN" > inc; git config includeIf.gitdir:/.path ../inc',
    "include of the branch": 'printf "[core]\\n\\tfsmonitor = %s\\n" "$RUN" > inc; git config includeIf.onbranch:**.path ../inc',
    "external diff": 'git config diff.external "$RUN"',
    "diff driver command": 'git config diff.x.command "$RUN"; echo "*.md diff=x" > .gitattributes',
    "textconv": 'git config diff.x.textconv "$RUN"; echo "*.md diff=x" > .gitattributes',
    "filter clean": 'git config filter.x.clean "$RUN"; echo "*.md filter=x" > .gitattributes',
    "filter process": 'git config filter.x.process "$RUN"; echo "*.md filter=x" > .gitattributes',
    "filter in info/attributes": 'git config filter.x.clean "$RUN"; mkdir -p .git/info; echo "*.md filter=x" > .git/info/attributes',
    "lfs filter with another program": 'git config filter.lfs.clean "$RUN"; echo "*.md filter=lfs" > .gitattributes',
    "lfs extension": 'git config lfs.extension.x.clean "$RUN"',
    "pager": 'git config core.pager "$RUN"',
    "pager of a command": 'git config pager.log "$RUN"; git config pager.status "$RUN"; git config pager.diff "$RUN"',
    "gpg for signatures": 'git config gpg.program "$RUN"; git config log.showSignature true',
    "signatures": "git config log.showSignature true",
    "gpg of ssh": 'git config gpg.format ssh; git config gpg.ssh.program "$RUN"; git config log.showSignature true',
    "pretty format with a signature": 'git config gpg.program "$RUN"; git config format.pretty "%G? %s"',
    "ssh command": 'git config core.sshCommand "$RUN"',
    "ssh with a proxy command": 'git config core.sshCommand "ssh -o ProxyCommand=$RUN"',
    "alternate refs": 'git config core.alternateRefsCommand "$RUN"',
    "alias": 'git config alias.x "!$RUN"',
    "trailer": 'git config trailer.x.command "$RUN"; git config trailer.x.ifmissing add',
    "credential helper": 'git config credential.helper "!$RUN"',
    "interactive filter": 'git config interactive.diffFilter "$RUN"',
    "submodule update": 'git config submodule.x.update "!$RUN"',
    "merge driver": 'git config merge.x.driver "$RUN"',
    "pack objects hook": 'git config uploadpack.packObjectsHook "$RUN"',
    "git proxy": 'git config core.gitProxy "$RUN"',
    "remote helper": 'git config remote.o.vcs "ext"; git config remote.o.url "ext::$RUN"',
    "remote helper as an address": 'git config remote.o.url "ext::$RUN"',
    "remote helper by another name": 'git config url.ext::x.insteadOf "host:"',
    "protocol": "git config protocol.ext.allow always",
    "continued line": 'printf "[core]\\n\\tbare = false \\\\\\n\\n\\tfsmonitor = %s\\n" "$RUN" >> .git/config',
    # Hooks of reading commands.
    "hook": 'cp "$RUN" .git/hooks/post-index-change; touch notes.md src/a',
    "hook in hooksPath": 'mkdir h; cp "$RUN" h/post-index-change; git config core.hooksPath h; touch notes.md src/a',
    "hook in an absolute hooksPath": 'mkdir h; cp "$RUN" h/post-index-change; git config core.hooksPath "$PWD/h"; touch notes.md src/a',
    # A different repository than the one in the folder.
    ".git file to another repository": 'rm -rf .git; echo "gitdir: ../other/.git" > .git',
    ".git file, absolute": 'rm -rf .git; echo "gitdir: $PWD/../other/.git" > .git',
    ".git link to another repository": "rm -rf .git; ln -s ../other/.git .git",
    ".git link to a .git file": 'rm -rf .git; echo "gitdir: ../other/.git" > dotgit; ln -s dotgit .git',
    ".git file to a repository inside": 'mv .git inner; git config -f inner/config core.fsmonitor "$RUN"; echo "gitdir: inner" > .git',
    ".git file to another's worktree": 'rm -rf .git; git -C ../other worktree add -q ../otherwt side; echo "gitdir: ../other/.git/worktrees/otherwt" > .git',
    "worktree with a false commondir": 'rm -rf .git; mkdir -p fake/worktrees/w; echo ../../../../other/.git > fake/worktrees/w/commondir; cp ../other/.git/HEAD fake/worktrees/w; echo "$PWD/.git" > fake/worktrees/w/gitdir; echo "gitdir: fake/worktrees/w" > .git',
    "objects link": "rm -rf .git/objects; ln -s ../../other/.git/objects .git/objects; cp ../other/.git/refs/heads/* .git/refs/heads/",
    "pack link": "(cd ../other && git repack -qad); for f in ../other/.git/objects/pack/*; do ln -s ../../../$f .git/objects/pack/; done; cat ../other/.git/refs/heads/side > .git/refs/heads/main",
    "refs and objects links": "rm -rf .git/objects .git/refs; ln -s ../../other/.git/objects .git/objects; ln -s ../../other/.git/refs .git/refs",
    "alternates": "echo $PWD/../other/.git/objects > .git/objects/info/alternates; cat ../other/.git/refs/heads/side > .git/refs/heads/main",
    "relative alternates": "echo ../../../other/.git/objects > .git/objects/info/alternates; cat ../other/.git/refs/heads/side > .git/refs/heads/main",
    "quoted alternates": "printf '\"%s\"\\n' $PWD/../other/.git/objects > .git/objects/info/alternates; cat ../other/.git/refs/heads/side > .git/refs/heads/main",
    "alternates of alternates": "mkdir -p alt/info; echo $PWD/../other/.git/objects > alt/info/alternates; echo ../../alt > .git/objects/info/alternates; cat ../other/.git/refs/heads/side > .git/refs/heads/main",
    "work tree elsewhere": "git config core.worktree ../../other",
    "work tree at the root": "git config core.worktree /",
    "bare repository as the folder": 'git clone -q --bare . b; git config -f b/config core.bare false; git config -f b/config core.worktree .; git config -f b/config core.fsmonitor "$RUN"; rm -rf .git; mv b/* .',
    "bare with commondir": 'git clone -q --bare . b; git config -f b/config core.fsmonitor "$RUN"; rm -rf .git; cp b/HEAD .; echo b > commondir',
    "steps of a rebase": "mkdir .git/rebase-merge; git rev-parse HEAD > .git/rebase-merge/onto; echo refs/heads/main > .git/rebase-merge/head-name; touch .git/rebase-merge/interactive; ln -s ../../../other/s .git/rebase-merge/done; ln -s ../../../other/s .git/rebase-merge/git-rebase-todo",
    "reference link": "ln -s ../../../../other/s .git/refs/heads/x",
    "link to a folder of references": "ln -s ../../../other .git/refs/x",
    "reflog link": "rm .git/logs/HEAD; ln -s ../../../other/s .git/logs/HEAD",
    "link to the worktree of another repository": "git -C ../other worktree add -q ../otherwt side; mkdir .git/worktrees; ln -s ../../../other/.git/worktrees/otherwt .git/worktrees/w",
    "reference link of a worktree": "git worktree add -q ../wt -b wt; mkdir -p .git/worktrees/wt/refs/bisect; ln -s ../../../../../../other/s .git/worktrees/wt/refs/bisect/x; cd ../wt",
    "object link": 'o=$(git -C ../other rev-parse HEAD:s); d=$(echo $o | cut -c1-2); mkdir .git/objects/$d; ln -s ../../../../other/.git/objects/$d/$(echo $o | cut -c3-) .git/objects/$d/; t=$(printf "100644 blob $o\\ts\\n" | git mktree); git update-ref refs/heads/main $(git commit-tree -m m $t)',
    "alternates with a linked object": 'mkdir -p alt/info alt/ab; ln -s ../../../other/s alt/ab/cd; echo ../../alt > .git/objects/info/alternates',
    # Submodules.
    "submodule with fsmonitor": 'git -c protocol.file.allow=always submodule -q add ../lib sub; git commit -qm s; git -C sub config core.fsmonitor "$RUN"',
    "submodule, old form": 'git clone -q ../lib sub; git add sub 2>/dev/null; git commit -qm s; git -C sub config core.fsmonitor "$RUN"',
    "submodule with commondir": 'git clone -q ../lib sub; git add sub 2>/dev/null; git commit -qm s; cp -r sub/.git p; git config -f p/config core.fsmonitor "$RUN"; echo ../../p > sub/.git/commondir',
    "submodule in a submodule": 'git init -q mid; (cd mid; git commit -qm e --allow-empty; git clone -q ../../lib deep; git add deep 2>/dev/null; git commit -qm d; git -C deep config core.fsmonitor "$RUN"); git add mid 2>/dev/null; git commit -qm m',
    "split index": 'git clone -q ../lib sub; git add sub 2>/dev/null; git commit -qm s; git -C sub config core.fsmonitor "$RUN"; git update-index --split-index',
}  # fmt: skip

HISTORY: dict[str, str] = {
    ".env committed and removed": f"echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r",
    "key in a folder": f"mkdir conf; echo {SECRET} > conf/id_rsa; git add conf; git commit -qm e; git rm -qr conf; git commit -qm r",
    "renamed": f"(seq 20; echo KEY={SECRET}) > .env; git add .env; git commit -qm e; git mv .env public.md; (seq 20) > public.md; git commit -qam r; echo > public.md; git commit -qam c",
    "denied folder": f"mkdir old; echo {SECRET} > old/x; git add old; git commit -qm e; git rm -qr old; git commit -qm r",
}

HISTORY_COMMANDS = (
    "git log -p", "git log -p --all", "git log -u", "git log --patch-with-stat", "git log -U0", "git log -G KEY", "git log -S hunter2", "git log -p -3",
    "git show HEAD", "git show HEAD~1", "git show HEAD HEAD~1", "git show HEAD~2..HEAD", "git diff HEAD~2 HEAD~1", "git diff HEAD~1", "git diff HEAD~3..HEAD~1",
    "git grep hunter2 HEAD~1", "git grep -e hunter2 HEAD~1 HEAD~2", "git stash show -p", "git diff-tree -p HEAD", "git diff-tree -p HEAD~2 HEAD~1",
    "git diff-index -p HEAD~1", "git log -p --follow public.md", "git log -L 1,3:public.md", "git show gone", "git log -p gone -1", "git show blobtag",
    "git cat-file -p blobtag", "git cat-file blob blobtag", "git show HEAD~1:.env", "git cat-file -p HEAD~1:.env", "git show HEAD~1:./.env",
    "git diff HEAD~1:.env notes.md", "git show --pretty HEAD~1:.env", "git show -U HEAD~1:.env", "git show --format HEAD~1:.env", "git blame HEAD~1 -- .env",
    "git show :/e", "git log -p HEAD~1 -1", "git log -p -m -3", "git log -c", "git show HEAD^{/e}", "git for-each-ref --format='%(raw)'", "git tag -l --format='%(raw)'",
    "git log -p -1 --skip=1", "git log -p -1 HEAD@{1}", "git show HEAD@{1}", "git log -p --reverse -2", "git log --word-diff -p", "git log --color-words",
    "git show --no-patch -p HEAD~1", "git show --stat -p HEAD~1", "git log --binary", "git log -p -- .", "git log -p -- '*'", "git log -p -- . ':!notes.md'",
    "git diff HEAD~1 -- .env", "git diff -R HEAD~1", "git show stash@{0}", "git grep hunter2 gone", "git log -p --tags --branches", "git log -W -p",
)  # fmt: skip

SIGNATURES = (
    "git log --format=%G?", "git log --pretty=format:%GG", "git log --format='%h %+G?'", "git show --format=%GS", "git log --show-signature",
    "git rev-list --format=%G? HEAD", "git tag -v x", "git verify-commit HEAD", "git for-each-ref --format='%(signature)'", "git branch --format='%(signature:grade)'",
    "git shortlog --format=%G? HEAD", "git reflog show --format=%G?",
)  # fmt: skip

BENIGN: dict[str, str] = {
    "plain": ":",
    "submodule": "git -c protocol.file.allow=always submodule -q add ../lib vendor/lib; git commit -qm s",
    "submodule that changed": "git -c protocol.file.allow=always submodule -q add ../lib lib; git commit -qm s; echo y > lib/l",
    "inside a submodule": "git -c protocol.file.allow=always submodule -q add ../lib lib; git commit -qm s; cd lib",
    "submodule in a submodule": "git init -q ../mid; (cd ../mid; git -c protocol.file.allow=always submodule -q add ../lib in; git commit -qm s); git -c protocol.file.allow=always submodule -q add ../mid mid; git -c protocol.file.allow=always submodule -q update --init --recursive; git commit -qm s",
    "linked worktree": "git worktree add -q ../wt -b wt; cd ../wt",
    "worktree of a bare repository": "git clone -q --bare . ../b.git; git -C ../b.git worktree add -q ../wt2; cd ../wt2",
    "main of a worktree": "git worktree add -q ../wt -b wt",
    "sparse checkout": "git sparse-checkout set src",
    "sparse checkout without cone": "git sparse-checkout set --no-cone '*.md'",
    "worktree with sparse checkout": "git worktree add -q ../wt -b wt; cd ../wt; git sparse-checkout set src",
    "husky": "mkdir -p .husky/_; printf '#!/bin/sh\\n' > .husky/_/pre-commit; git config core.hooksPath .husky/_",
    "own hooks": "printf '#!/bin/sh\\n' > .git/hooks/pre-commit; mkdir h; git config core.hooksPath h",
    "git-lfs": "git config filter.lfs.clean 'git-lfs clean -- %f'; git config filter.lfs.smudge 'git-lfs smudge -- %f'; git config filter.lfs.process 'git-lfs filter-process'; git config filter.lfs.required true; git config lfs.repositoryformatversion 0",
    "git-flow and gh": "git config gitflow.branch.master main; git config remote.origin.url git@x:y/z.git; git config remote.origin.gh-resolved base; git config branch.main.github-pr-owner-number 'o#r#1'",
    "ssh key": "git config core.sshCommand 'ssh -i ~/.ssh/work -o IdentitiesOnly=yes'; git config user.signingkey x; git config gpg.format ssh; git config commit.gpgsign true",
    "editor and pager": "git config core.editor 'code --wait'; git config core.pager 'less -F'; git config pager.branch false; git config merge.tool vimdiff",
    "maintenance": "git config maintenance.auto false; git config maintenance.strategy incremental; git config core.fsmonitor false; git config feature.manyFiles true",
    "many settings": "git config core.autocrlf input; git config url.x.insteadOf y; git config http.sslVerify true; git config credential.helper store; git config diff.algorithm histogram; git config pull.rebase true; git config i18n.commitEncoding utf-8",
    "index version 4": "git update-index --index-version 4; git config core.untrackedCache true; git update-index --untracked-cache",
    "merge in the history": "git checkout -qb f HEAD~1; echo f > f; git add f; git commit -qm f; git checkout -q -; git merge -q --no-edit f",
    "stash and tags": "git stash -q; git stash apply -q; git tag v1; git tag -am x v2",
    "packed": "git gc -q",
    "detached": "git checkout -q --detach",
    "secret that git ignores": f"echo KEY={SECRET} > .env; echo .env > .gitignore; git add .gitignore; git commit -qm i",
    "secret beside the repository's files": f"echo KEY={SECRET} > .env",
    "subfolder": "cd src",
    "sha256": "git init -q --object-format=sha256 ../s; cd ../s; echo one > notes.md; git add .; git commit -qm 1; echo 2 > notes.md; git commit -qam 2",
    "without commits": "git init -q ../e; cd ../e; echo one > notes.md",
    "without a repository": "mkdir ../n; cd ../n; echo one > notes.md",
    "linked hooks": "rm -rf .git/hooks; mkdir hk; ln -s ../hk .git/hooks",
}  # fmt: skip

BENIGN_COMMANDS = (
    "git status", "git log --oneline -5", "git diff", "git diff --stat HEAD", "git branch -a", "git show --stat HEAD", "git show HEAD",
    "git log -p -2 -- notes.md", "git log -p -1", "git diff HEAD~1", "git blame -L 1,1 notes.md", "git rev-parse HEAD", "git stash list", "git show HEAD:./notes.md",
    "git grep -n o HEAD -- notes.md", "git log --graph --all", "git tag", "git remote -v", "git worktree list", "git ls-files", "git describe --always",
)  # fmt: skip


def make_base(folder: Path) -> Path:
    """Make the repositories that every script starts with, to copy for each test; returns their folder."""
    for name in ("home", "template/hooks", "template/info"):  # without the sample hooks, which every test would copy
        (folder / name).mkdir(parents=True)
    (folder / "home/.gitconfig").write_text("[user]\n\tname = n\n\temail = a@b\n[init]\n\tdefaultBranch = main\n")
    _run_script(folder, BASE)
    return folder


def make_repository(folder: Path, script: str) -> Path:
    """Run a script in a copy of the base; returns the folder where it ends."""
    program = folder / "run"
    program.write_text(f'#!/bin/sh\ntouch "{folder}/trace"\nexit 1\n')
    program.chmod(0o755)
    end = _run_script(folder, f"cd main\n{script}")
    (folder / "trace").unlink(missing_ok=True)
    return end


def _run_script(folder: Path, script: str) -> Path:
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "GIT_TEMPLATE_DIR": str(folder / "template"),
        "RUN": str(folder / "run"),
        "LC_ALL": "C",
    }
    done = subprocess.run(
        ["bash", "-c", f"{script}\npwd > '{folder}/end'"],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )
    end = folder / "end"
    assert end.exists(), done.stderr
    return Path(end.read_text().strip())
