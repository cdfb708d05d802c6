"""Git command lines that try to show a secret or run a program, each with its repository; see `git_shapes`."""

from tests.unit.permissions.git_shapes import SECRET

LINES: dict[str, tuple[str, tuple[str, ...]]] = {
    'damaged inner git': ('mkdir -p sub/.git/objects sub/.git/refs; echo garbage > sub/.git/HEAD; git config core.fsmonitor "$RUN"', (
        'cd sub && git status', 'cd sub && git diff',
    )),
    'empty inner git': ('mkdir -p sub/.git; git config core.fsmonitor "$RUN"', (
        'cd sub && git status',
    )),
    'inner git with files': ('mkdir -p sub/.git; cp .git/HEAD sub/.git; touch sub/.git/objects sub/.git/refs; git config core.fsmonitor "$RUN"', (
        'cd sub && git status',
    )),
    'refs without x': ('git init -q sub; chmod 644 sub/.git/refs; git config core.fsmonitor "$RUN"', (
        'cd sub && git status',
    )),
    'bare in sub': ('git clone -q --bare . sub; git -C sub config core.fsmonitor "$RUN"; git -C sub config core.bare false; git -C sub config core.worktree .', (
        'cd sub && git status', 'cd sub; git diff', '(cd sub && git status)',
    )),
    'in .git': ('git config core.bare false', (
        'cd .git && git status', 'cd .git/refs && git log',
    )),
    'grep through a link': ('mkdir d; echo x > d/s; git add d; git commit -qm d; rm -r d; ln -s ../other d', (
        'git grep hunter2', 'git grep -n hunter2 -- d', 'git diff', 'git grep hunter2 d/s', 'git blame d/s', 'git diff HEAD -- d/s', "git grep . -- 'd*'",
    )),
    'grep through a file link': ('ln -s ../other/s s; git add s; git commit -qm s', (
        'git grep hunter2', 'git show HEAD', 'git diff HEAD~1', 'git blame s',
    )),
    'file named like a revision': (f"echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r; touch 'HEAD~1:.env' 'HEAD~1'", (
        'git cat-file -p HEAD*', 'git show HEAD*', 'git grep KEY HEAD*', 'git cat-file -p -- HEAD*', 'git grep hunter2 *', 'git show * --', 'git log -p HEAD* --', 'git diff *', 'git cat-file -p ./HEAD*', 'git diff-tree -p HEAD*', 'git stash show -p *',
    )),
    'worktree list': ('git worktree add -q ../wt -b wt; rm .git/worktrees/wt/gitdir; ln -s ../../../../other/s .git/worktrees/wt/gitdir', (
        'git worktree list', 'git worktree list --porcelain', 'git branch -a', 'git status',
    )),
    'worktree locked': ('git worktree add -q ../wt -b wt; ln -s ../../../../other/s .git/worktrees/wt/locked', (
        'git worktree list --porcelain', 'git worktree list -v',
    )),
    'info/exclude link': ('rm -f .git/info/exclude; ln -s ../../../other/s .git/info/exclude', (
        'git check-ignore -v hunter2-is-the-password', 'git status --ignored',
    )),
    'excludesFile': ('git config core.excludesFile ../other/s', (
        'git check-ignore -v hunter2-is-the-password',
    )),
    'ignoreRevs': ('git config blame.ignoreRevsFile ../other/s', (
        'git blame notes.md',
    )),
    'ignoreRevs env': (f'echo {SECRET} > .env; echo .env > .gitignore; git config blame.ignoreRevsFile .env', (
        'git blame notes.md',
    )),
    'mailmap': ('git config mailmap.file ../other/s', (
        'git log', 'git shortlog -sn HEAD',
    )),
    'orderFile': ('git config diff.orderFile ../other/s', (
        'git diff',
    )),
    'attributesFile': ('git config core.attributesFile ../x', (
        'git diff',
    )),
    'template': ('git config commit.template ../other/s', (
        'git status',
    )),
    'history': (f'echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r', (
        'git log -p -n 1 HEAD~1', 'git log -p --max-count=1 HEAD~1', 'git log -p -n1 --author=n', 'git log -p --skip=1 -n 1', 'git log --since=1.day -p', 'git log -p HEAD~1..', 'git log -p HEAD...HEAD~2', 'git log -p ^HEAD~3 HEAD', 'git show HEAD~1 -- .', "git show HEAD~1 -- '.e*'", "git show HEAD~1 -- ':(top).env'", 'git show HEAD~1 -- :/', "git log -p -1 HEAD~1 -- ':(icase).ENV'", 'git diff HEAD~1..HEAD~2', 'git diff HEAD~1...HEAD', 'git diff HEAD HEAD^ --', 'git diff HEAD^! --', 'git show HEAD^!', 'git diff --merge-base HEAD~1', 'git diff --cached HEAD~1', 'git diff-index -p --cached HEAD~1', 'git diff-tree -p HEAD HEAD~1', 'git diff-tree -p --root HEAD~1', 'git diff-tree -u HEAD~1', 'git cat-file -p HEAD~1:./.env', 'git show HEAD~1:.env --stat', 'git show --oneline HEAD~1:.env', 'git show --stat HEAD~1:.env', 'git show --name-only HEAD~1:.env', 'git show -s HEAD~1:.env', 'git show --no-patch HEAD~1:.env', 'git show --raw HEAD~1:.env', 'git cat-file -e HEAD~1:.env', 'git cat-file -t HEAD~1:.env', 'git cat-file blob HEAD~1:.env', 'git cat-file -p $(git rev-parse HEAD~1:.env)', 'git show @~1', 'git show main~1', 'git show main@{1}', 'git show ORIG_HEAD', 'git log -p --walk-reflogs', 'git log -g -p', 'git reflog -p', 'git reflog show -p', 'git stash list -p', 'git whatchanged -p', 'git format-patch --stdout HEAD~2', 'git archive HEAD~1', 'git range-diff HEAD~2 HEAD~1 HEAD', 'git log --cc -p', 'git log --diff-merges=on', 'git log --remerge-diff', 'git blame HEAD~1 .env', 'git blame -s HEAD~1 -- ./.env', 'git annotate .env HEAD~1', 'git grep -h . HEAD~1', 'git grep -e KEY HEAD~1 --', 'git grep -c KEY HEAD~1', 'git grep -l KEY HEAD~1 -- .env', 'git grep hunter2 HEAD~1:', 'git grep hunter2 HEAD~1^{tree}', 'git grep --cached KEY', 'git log -L1,1:.env HEAD~1', 'git log -L 1,1:.env', 'git log -S hunter2 --stat', 'git log -Ghunter2 --oneline', 'git --no-pager show HEAD~1', 'git -P log -p', 'command git show HEAD~1', 'env git show HEAD~1', 'nice git show HEAD~1', 'timeout 5 git log -p', 'git log -p | cat', 'git show HEAD~1 | head -50', 'echo HEAD~1:.env | xargs git show', 'x=HEAD~1; git show $x', 'git show "HEAD~1"', "git show 'HEAD~1:.env'", 'git show HEAD~1:.e\\nv', 'git diff HEAD~1:.env HEAD:notes.md', 'git diff HEAD~1:notes.md HEAD~1:.env', 'git diff HEAD~1^{tree} HEAD^{tree}', 'git diff HEAD~1: HEAD:', 'git show HEAD~1:', 'for r in HEAD HEAD~1; do git show $r; done', 'for r in HEAD~1; do git show "$r:.env"; done', 'git log --format=%s -p', 'git log -p --format=%H -1 HEAD~1', 'git log -pw', 'git log -pr --oneline', 'git log -1p HEAD~1', 'git log --patch=x', 'git log -p --no-patch', 'git log -s -p', 'git log -p -s', 'git show -q HEAD~1', 'git show --quiet HEAD~1', 'git diff --check HEAD~1 HEAD~2', 'git diff --exit-code HEAD~1', 'git diff -z HEAD~1', 'git diff --color-words HEAD~1 --stat', 'git diff --stat -W HEAD~1', 'git diff --numstat --text HEAD~1', 'git diff --stat --binary HEAD~1',
    )),
    'loose tag to blob': (f'echo KEY={SECRET} > .env; git tag b $(git hash-object -w .env); git tag -am x t b; git update-ref refs/heads2/x $(git hash-object .env); rm .env', (
        'git show b', 'git show t', 'git cat-file -p b', 'git cat-file -p t', 'git cat-file blob t', 'git show --tags', 'git show --all', 'git show t^{}', 'git show t^{blob}', 'git diff b HEAD:notes.md', 'git diff t HEAD:notes.md', 'git log -p --all', 'git log -p --tags', 'git grep KEY b', 'git grep KEY t', "git for-each-ref --format='%(raw)'", "git for-each-ref --format='%(*raw)'", "git for-each-ref --format='%(contents)'", 'git tag -l -n5', "git tag -l --format='%(contents)'", "git tag -l --format='%(*raw)' t", 'git show refs/heads2/x',
    )),
    'format in a word of its own': (f'echo KEY={SECRET} > .env; git tag b $(git hash-object -w .env); rm .env', (
        "git for-each-ref --format '%(raw)'", "git for-each-ref refs/tags --format '%(raw)'", "git for-each-ref --format '%(if:equals=x)%(raw)%(then)%(else)%(raw)%(end)'", 'git tag -l',
    )),
    'a value that looks like a revision': (f'git tag A; git tag plain; git tag histogram; git tag 3; echo KEY={SECRET} > .env; git add .env; git commit -qm e', (
        'git show --diff-filter A', 'git show --word-diff-regex plain', 'git show --diff-algorithm histogram', 'git show --inter-hunk-context 3', 'git show --unified 3', 'git log -p -1 --diff-filter A',
    )),
    'two -C': (f'(seq 50; echo KEY={SECRET}) > .env; git add .env; git commit -qm e; (seq 50) > new; git add new; git commit -qm n', (
        'git log -p -1 -C -C', 'git show -C -C HEAD', 'git show -CC HEAD', 'git diff --find-copies -C HEAD~1 HEAD', 'git show -C --find-copies HEAD', 'git diff -C -C HEAD~1', 'git diff-tree -p -C -C HEAD',
    )),
    'rename out of env': (f"(seq 50; echo KEY={SECRET}) > .env; git add .env; git commit -qm e; git mv .env pub.md; sed -i '$d' pub.md; git commit -qam n", (
        'git show HEAD', 'git show HEAD -- pub.md', 'git log -p --follow pub.md', 'git log -p --follow -1 pub.md', 'git log -p --follow -- pub.md', 'git log -L1,2:pub.md', 'git log -p -M -1', 'git diff HEAD~1 HEAD', 'git blame -C pub.md', 'git blame -C -C HEAD -- pub.md',
    )),
    'replace': (f'echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r; git replace HEAD HEAD~1', (
        'git show HEAD', 'git log -p -1',
    )),
    'replace blob': (f'echo KEY={SECRET} > .env; git replace -f $(git rev-parse HEAD:notes.md) $(git hash-object -w .env); rm .env', (
        'git replace -l',
    )),
    'grafts': (f"echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r; git rev-parse HEAD HEAD~3 | tr '\\n' ' ' > .git/info/grafts", (
        'git show HEAD', 'git log -p -1',
    )),
    'shallow': (f'echo KEY={SECRET} > .env; git add .env; git commit -qm e; git rm -q .env; git commit -qm r; git rev-parse HEAD~1 > .git/shallow', (
        'git log -p', 'git show HEAD~1',
    )),
    'promisor': ('git config remote.o.url "ext::$RUN"; git config remote.o.promisor true; git config extensions.partialClone o; git config core.repositoryformatversion 1; b=$(git rev-parse HEAD:notes.md); rm -f .git/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-)', (
        'git status', 'git diff', 'git show HEAD', 'git show --stat HEAD', 'git log -p', 'git log --stat', 'git log --oneline', 'git diff HEAD', 'git grep one HEAD', 'git cat-file -p HEAD:notes.md', 'git blame notes.md', 'git diff --stat', 'env -i git diff', 'env -u GIT_ALLOW_PROTOCOL git diff', 'unset GIT_ALLOW_PROTOCOL; git diff', 'GIT_ALLOW_PROTOCOL=ext git diff', 'env GIT_ALLOW_PROTOCOL=ext git diff', 'export GIT_ALLOW_PROTOCOL=ext; git diff', 'git diff-files -p', 'git ls-files -s', 'git grep one', 'git status -v', 'git status -vv', 'git stash list --stat', 'git log -S one', 'git shortlog -sn HEAD', 'git describe --always --dirty',
    )),
    'promisor ssh': ('git config remote.o.url "host:x"; git config remote.o.promisor true; git config extensions.partialClone o; git config core.repositoryformatversion 1; b=$(git rev-parse HEAD:notes.md); rm -f .git/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-)', (
        'git status', 'git diff', 'git log --oneline', 'git diff --stat', 'git grep one', 'git status -v',
    )),
    'agentignore': (f'echo private/ > .agentignore; mkdir private; echo {SECRET} > private/x; git add private; git commit -qm p; git rm -rq private; git commit -qm q', (
        'git log -p', 'git show HEAD', 'git show HEAD~1:private/x', 'git grep hunter2 HEAD~1', 'git diff HEAD~1', 'git log -p -2 -- notes.md .', 'git cat-file -p HEAD~1:private/x', 'git show HEAD~1:./private/x', 'git blame HEAD~1 -- private/x',
    )),
    'outside project': ('mkdir -p ../main/proj; echo x > proj/x; git add proj; git commit -qm x; echo more > src/a; cd proj', (
        'git diff', 'git show HEAD~1', 'git show HEAD~1:notes.md', 'git show HEAD:../notes.md', 'git show :/first', 'git log -p', 'git grep one -- :/', 'git grep one HEAD -- :/', 'git diff -- ..', 'git cat-file -p HEAD:notes.md', 'git blame ../notes.md', 'git grep one HEAD:',
    )),
    'env vars in line': ('true', (
        'GIT_DIR=../other/.git git show', 'GIT_WORK_TREE=../other git diff', 'GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./run git status', 'git --git-dir=../other/.git show', 'git -C ../other show', 'cd ../other && git show HEAD', 'git -c core.fsmonitor=./x status', 'export GIT_DIR=../other/.git; git show', 'env GIT_DIR=../other/.git git show HEAD', 'git --work-tree=../other diff', 'git --exec-path=. status', 'git --namespace=x log -p', 'git --config-env=core.fsmonitor=HOME status',
    )),
    'sub config': ('git -c protocol.file.allow=always submodule -q add ../lib sub; git commit -qm s; git -C sub config core.worktree ../../../../other', (
        'git status', 'git diff', 'cd sub && git status',
    )),
    'sub gitfile': ('git -c protocol.file.allow=always submodule -q add ../lib sub; git commit -qm s; echo "gitdir: ../../other/.git" > sub/.git', (
        'git status', 'git diff', 'cd sub && git show HEAD',
    )),
    'sub link': ('git -c protocol.file.allow=always submodule -q add ../lib sub; git commit -qm s; rm -rf sub; ln -s ../other sub', (
        'git status', 'git diff', 'cd sub && git show HEAD',
    )),
    'sub recurse': (f'git init -q ../sec; (cd ../sec; echo {SECRET} > .env; git add .; git commit -qm x); git -c protocol.file.allow=always submodule -q add ../sec sub; git commit -qm s; git config submodule.recurse true', (
        'git grep hunter2', 'git grep hunter2 HEAD', 'git ls-files', 'git diff --submodule=diff HEAD~1', 'git show --submodule=diff HEAD',
    )),
    'sub diff config': (f'git init -q ../sec; (cd ../sec; echo {SECRET} > .env; git add .; git commit -qm x); git -c protocol.file.allow=always submodule -q add ../sec sub; git commit -qm s; git config diff.submodule diff', (
        'git show HEAD', 'git diff HEAD~1',
    )),
    'log.follow': (f"(seq 50; echo KEY={SECRET}) > .env; git add .env; git commit -qm e; git mv .env pub.md; sed -i '$d' pub.md; git commit -qam n; git config log.follow true", (
        'git log -p -- pub.md', 'git log -p pub.md',
    )),
    'user follow': (f"(seq 50; echo KEY={SECRET}) > .env; git add .env; git commit -qm e; git mv .env pub.md; sed -i '$d' pub.md; git commit -qam n; git config --global log.follow true; git config --global log.showSignature true; git config --global stash.showPatch true", (
        'git log -p -- pub.md', 'git log -p pub.md', 'git log -3',
    )),
    'staged secret': (f'echo KEY={SECRET} > .env; git add .env', (
        'git status -v', 'git status -vv', 'git status --verbose', 'git status -sv', 'git diff --cached', 'git diff HEAD', 'git diff --staged -- .', 'git stash show -p', 'git diff-index -p HEAD', 'git grep hunter2', 'git grep --cached hunter2', 'git status',
    )),
    'tracked secret': (f'echo a > .env; git add .env; git commit -qm e; echo KEY={SECRET} >> .env', (
        'git status -vv', 'git diff', 'git diff HEAD', 'git diff-files -p', "git diff -- '*'", 'git grep hunter2', 'git blame .env', 'git diff notes.md', 'git show HEAD:notes.md',
    )),
}  # fmt: skip
"""By name: the script, and the lines."""
