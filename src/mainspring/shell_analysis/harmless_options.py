"""Options that a wildcard of a rule may cover, as data: they neither write, nor run code, nor read settings or code.

Every key is a program, or a program with its subcommand. A value lists options, separated by spaces:

- ``-q``: an option without a value.
- ``-m:``: an option whose value is attached, or is the next word.
- ``--color=``: an option that may have a value, which is always attached.
- ``-W:~REGEX``: the same, if only such values are harmless.
- ``-i!``: an option without a value that is not harmless, so that a rule must name it.
- ``-#``: a number as an option, such as ``-5``.
- ``V=~REGEX``: a word without a dash that assigns such a value.
- ``*``: every option of the program is harmless.
- ``!``: a wildcard does not cover the subcommand itself, so that a rule must name it.

A program that is in no table has only `EVERY_PROGRAM`. Options of read-only programs are in `readonly_programs`.
"""

from __future__ import annotations

from collections.abc import Mapping

EVERY_PROGRAM = "--help --version --verbose --quiet --no-color"
"""The options that are harmless for an unknown program."""

ANY_OPTION = frozenset(
    "echo printf true false test [ sleep cat tac rev nl head tail wc cut tr comm paste fold ls dir grep egrep fgrep stat basename "
    "dirname realpath readlink pwd whoami id groups touch mkdir rmdir rm chmod md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "b2sum cksum du df seq expr uname which type ps kill pgrep cmp od hexdump free uptime tee read".split()
)
"""Programs whose options never write elsewhere, run anything, or read settings."""

_STRATEGY = "(?:ort|recursive|resolve|octopus|ours|subtree)"
_MERGE = f"-s:~{_STRATEGY} --strategy:~{_STRATEGY} -X: --strategy-option:"
_FETCH = (
    "-p -a -t -v -q -f -4 -6 --prune --all --tags --no-tags --depth: --unshallow --quiet --verbose --dry-run --progress --force "
    "--prune-tags --shallow-since: --deepen: -j: --jobs: --multiple --append --no-recurse-submodules"
)
_STASH = "-u -k -a -q -S -m: --include-untracked --keep-index --no-keep-index --all --staged --quiet --message:"
_SAME_STEP = "--abort --continue --skip --quit"

_GIT: Mapping[str, str] = {
    "git": "-p! --paginate! --bare! -P --no-pager --no-optional-locks --no-replace-objects --literal-pathspecs",
    "git add": (
        "-p! -i! -e! --patch! -A -u -n -v -f -N --all --update --intent-to-add --dry-run --force --verbose --ignore-errors --refresh "
        "--renormalize --no-all --ignore-removal --chmod="
    ),
    "git am": f"-3 -q -s --3way --signoff --quiet {_SAME_STEP}",
    "git apply": (
        "-R -3 -N -v -p: --check --stat --numstat --summary --reverse --3way --index --cached --verbose --whitespace= --recount "
        "--reject --exclude: --include: --allow-empty --intent-to-add"
    ),
    "git archive": "-l -v --list --verbose --format:~(?:tar|zip)",
    "git branch": (
        "-d -D -m -M -c -C -f -t -q -u: --delete --move --copy --force --track= --no-track --quiet --set-upstream-to: "
        "--unset-upstream"
    ),
    "git checkout": (
        "-b: -B: -q -f -t -m -d -l --detach --track= --no-track --force --quiet --ours --theirs --orphan: --merge --guess "
        "--no-guess --progress --no-progress --overlay --no-overlay --conflict="
    ),
    "git cherry-pick": f"-x -n -m: -s --no-commit --mainline: --signoff --allow-empty --ff {_SAME_STEP} {_MERGE}",
    "git clean": "-f -d -n -x -X -q -e: --force --dry-run --quiet --exclude:",
    "git clone": (
        "-q -v -n -l -b: -j: --branch: --depth: --single-branch --no-single-branch --no-checkout --bare --mirror --quiet --verbose "
        "--progress --no-tags --filter: --sparse --shallow-since: --jobs: --recurse-submodules --no-hardlinks --local"
    ),
    "git commit": (
        "-e! -S! -p! --patch! -m: -a -v -q -s -n -i -o -C: -F: --amend --no-edit --allow-empty --allow-empty-message --author: --date: --message: "
        "--all --signoff --no-verify --quiet --verbose --dry-run --fixup: --squash: --reset-author --short --porcelain --branch "
        "--status --no-status --cleanup: --no-gpg-sign --file: --only --include --reuse-message:"
    ),
    "git fetch": _FETCH, "git fsck": "--full --strict --no-dangling --unreachable --connectivity-only",
    "git gc": "-q --auto --quiet --aggressive --prune=",
    "git init": "-q --quiet -b: --initial-branch: --bare",
    "git format-patch": "-# --stdout --signoff -s -k -n -N",
    "git ls-remote": "-h -t -q --heads --branches --tags --refs --quiet --sort: --symref --exit-code --get-url",
    "git merge": (
        "-m: -q -v -n --no-ff --ff --ff-only --squash --no-commit --commit --no-edit --abort --continue --quit --stat --no-stat "
        f"--log= --allow-unrelated-histories --autostash --no-autostash --no-verify --quiet {_MERGE}"
    ),
    "git mv": "-f -n -k -v --force --dry-run --verbose",
    "git pull": (
        f"{_FETCH} -r -n --rebase=~(?:true|false|merges) --no-rebase --ff --ff-only --no-ff --autostash --no-autostash --no-edit --squash --stat --no-stat "
        f"--no-commit --commit --allow-unrelated-histories {_MERGE}"
    ),
    "git push": (
        "-u -f -d -n -q -v --set-upstream --force --force-with-lease= --force-if-includes --tags --follow-tags --all --branches "
        "--delete --dry-run --quiet --verbose --progress --porcelain --prune --atomic --no-verify"
    ),
    "git rebase": (
        f"-i! --interactive! {_SAME_STEP} --onto: --autosquash --no-autosquash --autostash --no-autostash --root -q -v -f -r -n --force-rebase "
        "--rebase-merges=~(?:no-)?rebase-cousins --keep-base --fork-point --no-fork-point --update-refs --stat --no-stat --reapply-cherry-picks --signoff "
        f"--no-verify --quiet --verbose {_MERGE}"
    ),
    "git remote prune": "-n --dry-run", "git remote show": "-n", "git remote update": "-p --prune",
    "git reset": "--hard --soft --mixed --merge --keep -q -N --quiet --refresh --no-refresh --intent-to-add",
    "git restore": "-s: -S -W -q -m --source: --staged --worktree --quiet --ours --theirs --merge --overlay --no-overlay",
    "git revert": f"-n -m: -s --no-edit --no-commit --mainline: --signoff {_SAME_STEP} {_MERGE}",
    "git rm": "-r -f -n -q --cached --force --dry-run --quiet --ignore-unmatch",
    "git stash": _STASH, "git stash push": _STASH, "git stash save": _STASH, "git stash pop": "-q --index --quiet",
    "git stash apply": "-q --index --quiet", "git stash drop": "-q --quiet", "git stash clear": "", "git stash branch": "",
    "git submodule status": "-q --recursive --cached --quiet",
    "git switch": (
        "-c: -C: -d -f -q -t -m --create: --force-create: --detach --track= --no-track --discard-changes --force --quiet --orphan: "
        "--guess --no-guess --merge"
    ),
    "git tag": "-a -m: -d -f --annotate --message: --delete --force --contains= --no-contains= --points-at= --merged= --no-merged=",
    "git worktree add": "-b: -B: -f -d -q --force --detach --no-checkout --checkout --track --no-track --lock --guess-remote --quiet",
    "git worktree prune": "-n -v --dry-run --verbose --expire:", "git worktree remove": "-f --force",
}  # fmt: skip

_TEST_RUN = (
    "-t: -u -i --coverage --watch= --watchAll= --silent --verbose= --bail= --ci --run --runInBand --updateSnapshot --update "
    "--testNamePattern: --testPathPattern: --testPathPatterns: --grep: --color= --colors --no-color --no-coverage --passWithNoTests "
    "--findRelatedTests --onlyChanged --changed= --maxWorkers: --max-warnings: --quiet --check --noEmit --list --headless --forceExit "
    "--detectOpenHandles --retries: --workers: --headed"
)
"""Options of programs that ``npm test`` and similar commands start."""
_PACKAGES = (
    "-g! --global! --force! -D -E -O -P -s -w: --save --save-dev --save-exact --save-optional --no-save --production --omit: --include: --legacy-peer-deps "
    "--no-audit --no-fund --ignore-scripts --prefer-offline --offline --no-optional --dev --exact --frozen-lockfile --immutable "
    "--no-frozen-lockfile --lockfile-only --package-lock-only --workspace: --workspaces --no-package-lock"
)
_NPM = "-s -ws -w: --silent --workspace: --workspaces --if-present --no-color --color= --no-audit --no-fund --no-progress --loglevel:~[a-z]+"
_NPM_RUN = f"{_NPM} --ignore-scripts"
_NPM_LIST = f"{_NPM} -a -l -g --all --long --json --depth: --parseable --omit: --global --production --include:"
_YARN = "-s --silent --verbose --json --non-interactive --no-progress"

_NODE: Mapping[str, str] = {
    "npm": _NPM, "npm test": _NPM_RUN, "npm t": _NPM_RUN, "npm run": _NPM_RUN, "npm run-script": _NPM_RUN, "npm start": _NPM_RUN,
    "npm test --": _TEST_RUN, "npm t --": _TEST_RUN, "npm run --": _TEST_RUN, "npm run-script --": _TEST_RUN, "npm start --": _TEST_RUN,
    "npm stop": _NPM_RUN, "npm restart": _NPM_RUN,
    "npm install": f"{_NPM} {_PACKAGES}", "npm i": f"{_NPM} {_PACKAGES}", "npm ci": f"{_NPM} {_PACKAGES}", "npm add": f"{_NPM} {_PACKAGES}",
    "npm uninstall": f"{_NPM} {_PACKAGES}", "npm rm": f"{_NPM} {_PACKAGES}", "npm remove": f"{_NPM} {_PACKAGES}",
    "npm update": f"{_NPM} {_PACKAGES}", "npm dedupe": _NPM_RUN, "npm prune": f"{_NPM} {_PACKAGES}",
    "npm ls": _NPM_LIST, "npm list": _NPM_LIST, "npm outdated": _NPM_LIST, "npm view": f"{_NPM} --json", "npm info": f"{_NPM} --json",
    "npm why": f"{_NPM} --json", "npm explain": f"{_NPM} --json", "npm fund": f"{_NPM} --json",
    "npm audit fix": "!", "npm audit signatures": f"{_NPM} --json", "npm audit": f"{_NPM} --json --omit: --production --audit-level:~[a-z]+",
    "npm pack": f"! {_NPM} --dry-run --json", "npm publish": f"! {_NPM} --dry-run --tag: --access:", "npm version": f"! {_NPM} -m: --no-git-tag-version",
    "pnpm": f"{_YARN} -r --recursive", "pnpm test": f"{_YARN} {_TEST_RUN}", "pnpm run": f"{_YARN} {_TEST_RUN} --if-present -r --recursive",
    "pnpm install": f"{_YARN} {_PACKAGES}", "pnpm i": f"{_YARN} {_PACKAGES}", "pnpm add": f"{_YARN} {_PACKAGES}",
    "pnpm remove": f"{_YARN} {_PACKAGES}", "pnpm update": f"{_YARN} {_PACKAGES}", "pnpm list": f"{_YARN} --depth: --prod --long",
    "pnpm ls": f"{_YARN} --depth: --prod --long", "pnpm outdated": _YARN, "pnpm why": _YARN, "pnpm build": _YARN, "pnpm lint": f"{_YARN} {_TEST_RUN}",
    "pnpm start": _YARN, "pnpm audit": _YARN, "pnpm typecheck": _YARN,
    "yarn": f"{_YARN} {_PACKAGES}", "yarn test": f"{_YARN} {_TEST_RUN}", "yarn run": f"{_YARN} {_TEST_RUN}", "yarn build": _YARN,
    "yarn lint": f"{_YARN} {_TEST_RUN}", "yarn start": _YARN, "yarn typecheck": _YARN, "yarn install": f"{_YARN} {_PACKAGES}",
    "yarn add": f"{_YARN} {_PACKAGES}", "yarn remove": f"{_YARN} {_PACKAGES}", "yarn upgrade": f"{_YARN} {_PACKAGES}",
    "yarn list": f"{_YARN} --depth: --pattern:", "yarn why": _YARN, "yarn outdated": _YARN, "yarn info": _YARN, "yarn audit": _YARN,
    "tsc": "--noEmit -w --watch --strict --pretty= --listFiles --skipLibCheck --noEmitOnError --diagnostics --traceResolution --noErrorTruncation",
    "eslint": "--no-eslintrc! --quiet --fix --fix-dry-run --max-warnings: --ext: --color --no-color --cache --no-cache --debug --report-unused-disable-directives "
    "--no-error-on-unmatched-pattern --format:~(?:stylish|json|html|json-with-metadata) -f:~(?:stylish|json|html)",
    "prettier": "-c -l -w -u --check --list-different --write --no-color --color --loglevel: --log-level: --ignore-unknown --no-error-on-unmatched-pattern "
    "--single-quote --no-semi --tab-width: --print-width: --trailing-comma:",
    "jest": _TEST_RUN, "vitest": f"{_TEST_RUN} --reporter:~(?:default|verbose|dot|json|tap|basic)", "mocha": "--grep: -g: --bail -b --timeout: -t: --watch -w --color --no-color --exit",
    "vitest run": _TEST_RUN, "playwright test": "--headed --workers: --retries: --grep: -g: --project: --list --forbid-only --quiet -x",
}  # fmt: skip

_WARNING = r"(?:ignore|error|default|always|module|once)(?:::(?:[A-Z]\w*Warning)?)?"
_PIP = "-q -v --quiet --verbose --no-color --no-input --disable-pip-version-check --no-cache-dir --progress-bar:~[a-z]+ --timeout: --retries:"
_PIP_INSTALL = f"{_PIP} -U --upgrade --user --pre --no-deps --dry-run --force-reinstall --no-build-isolation --only-binary: --no-binary: --upgrade-strategy:"
_PYTEST = (
    f"-q -v -x -s -l -k: -m: -n: -r: -p:~no:[a-z_]+ -W:~{_WARNING} --lf --ff --nf --sw --last-failed --failed-first --new-first --stepwise "
    "--maxfail: --tb:~[a-z]+ --durations: --durations-min: --no-header --no-summary --co --collect-only --quiet --verbose --exitfirst "
    "--capture:~[a-z]+ --color:~[a-z]+ --disable-warnings --strict-markers --strict-config --setup-show --setup-only --setup-plan --fixtures "
    "--markers --deselect: --ignore: --ignore-glob: --timeout: --cov= --no-cov --cov-branch --cov-append --cov-fail-under: "
    "--cov-report:~term(?:-missing)?(?::skip-covered)? --dist:~[a-z]+ --numprocesses: --cache-clear --showlocals --no-showlocals "
    "--import-mode:~[a-z]+ --asyncio-mode:~[a-z]+ --snapshot-update --pyargs --runxfail --full-trace --doctest-modules --reruns: --benchmark-skip "
    "--hypothesis-seed: --random-order --randomly-seed: --show-capture:~[a-z]+"
)
_UV = "-q -v --quiet --verbose --no-progress --offline --color:~[a-z]+ --no-cache"
_UV_SYNC = f"{_UV} --all-extras --extra: --group: --no-group: --dev --no-dev --only-dev --frozen --locked --upgrade -U --all-groups --no-sync --dry-run"
_RUFF = (
    "-q -v -s --quiet --verbose --silent --fix --no-fix --unsafe-fixes --diff --select: --ignore: --extend-select: --extend-ignore: --statistics "
    "--show-fixes --show-files --exit-zero --no-cache -n -w --watch --preview --no-preview --line-length: --target-version: --exclude: "
    "--output-format:~[a-z-]+ --color:~[a-z]+ --check --isolated --force-exclude --respect-gitignore -e"
)

_PYTHON: Mapping[str, str] = {
    "pytest": _PYTEST, "py.test": _PYTEST,
    "pip": _PIP, "pip install": _PIP_INSTALL, "pip uninstall": f"{_PIP} -y --yes", "pip list": f"{_PIP} -o --outdated --format:~[a-z]+ --user --not-required",
    "pip show": f"{_PIP} -f --files", "pip freeze": f"{_PIP} -l --local --user --all", "pip check": _PIP, "pip index versions": f"{_PIP} --pre",
    "pip download": f"{_PIP} --no-deps --pre", "pip wheel": f"{_PIP} --no-deps",
    "uv": _UV, "uv sync": _UV_SYNC, "uv lock": f"{_UV} --check --upgrade -U --upgrade-package: -P: --locked --dry-run", "uv add": f"{_UV_SYNC} --optional:",
    "uv remove": _UV_SYNC, "uv tree": f"{_UV} --depth: -d: --outdated --invert --frozen --locked", "uv version": f"{_UV} --short", "uv venv": f"{_UV} --seed",
    "uv build": f"{_UV} --sdist --wheel", "uv pip install": f"{_UV} -U --upgrade --no-deps --pre --dry-run", "uv pip list": f"{_UV} --outdated --format:~[a-z]+",
    "uv pip show": _UV, "uv pip freeze": _UV, "uv pip check": _UV, "uv pip uninstall": f"{_UV} -y", "uv pip tree": f"{_UV} --depth: -d:",
    "ruff": "-q -v -s --quiet --verbose --silent", "ruff check": _RUFF, "ruff format": _RUFF, "ruff rule": "--all --output-format:~[a-z]+", "ruff clean": "",
    "mypy": (
        "-v --verbose --strict --no-error-summary --pretty --no-pretty --show-error-codes --hide-error-codes --show-error-context --no-color-output "
        "--ignore-missing-imports --follow-imports:~[a-z]+ --disallow-untyped-defs --check-untyped-defs --no-incremental --warn-unused-ignores "
        "--warn-return-any --warn-unreachable --python-version:~[\\d.]+ --platform:~\\w+ -p: -m: --exclude: --namespace-packages --explicit-package-bases "
        "--show-column-numbers --no-strict-optional --implicit-reexport --no-implicit-reexport"
    ),
    "pyright": "--outputjson --stats --verbose --warnings --skipunannotated --level:~[a-z]+",
    "black": "-q -v --quiet --verbose --check --diff --color --no-color -l: --line-length: -t:~\\w+ --target-version:~\\w+ -S --skip-string-normalization --fast --safe --preview --exclude: --include:",
    "isort": "-q -v -c --check --check-only --diff --quiet --verbose --profile:~[a-z]+ --color --line-length: -l:",
    "flake8": "-q -v --quiet --verbose --count --statistics --max-line-length: --select: --ignore: --extend-ignore: --exclude: --show-source --max-complexity:",
    "coverage report": "-m -i --show-missing --skip-covered --skip-empty --fail-under: --include: --omit: --precision: --sort:", "coverage combine": "-a -q --append --keep",
    "coverage erase": "", "unittest": "-q -v -f -b -c -k: --quiet --verbose --failfast --buffer --locals", "unittest discover": "-q -v -f -b -k:",
    "venv": "--clear --upgrade --upgrade-deps --system-site-packages --without-pip --copies", "build": "-s -w -n -v --sdist --wheel --no-isolation --skip-dependency-check",
    "json.tool": "--sort-keys --indent: --compact --no-ensure-ascii --tab --json-lines", "http.server": "--bind: -b:", "pre-commit run": "-a -v --all-files --verbose --show-diff-on-failure --from-ref: --to-ref: --color:~[a-z]+ --files",
}  # fmt: skip

_COMPILER = (
    r"-c -S -E -v -w -s -g=~(?:\d|gdb\d?|dwarf(?:-\d)?|split-dwarf|line-tables-only) -O=~(?:[0-3sgz]|fast) -x:~(?:c|c\+\+|c-header|none) -o:~(?!/|(?:.*/)?\.|.*(?i:file)$)[\w./-]*?(?:[\w-]\.(?:o|so|a|exe|out|elf|wasm|s|i)|(?<![\w.])[a-z0-9_-]+) "
    r"-W=~(?![lap],)[\w+=-]* -std= -I: -D: -U: -L: -l: -M -MM -MD -MMD -MP -ansi -pedantic -pedantic-errors -pthread -pipe -shared -static "
    r"-rdynamic -fPIC -fpic -fPIE -pie -no-pie -fno-exceptions -fno-rtti -fsyntax-only -fopenmp -fno-omit-frame-pointer -ffast-math "
    r"-fstack-protector -fstack-protector-strong -fvisibility= -fsanitize= -fdiagnostics-color= -fno-common -funroll-loops -flto= -fcolor-diagnostics "
    r"-march= -mtune= -m32 -m64 -mavx -mavx2 -msse4.2 -isystem: --version -dumpversion -dumpmachine -print-search-dirs"
)
_MAKE = (
    "-j=~\\d+ -l=~[\\d.]+ -k -n -B -s -i -q -r -R -w -t -d --jobs=~\\d+ --load-average=~[\\d.]+ --keep-going --dry-run --just-print --always-make --silent --quiet "
    "--ignore-errors --question --no-builtin-rules --no-builtin-variables --no-print-directory --print-directory --touch --trace --output-sync=~[a-z]+ -O=~[a-z]+ "
    "-p --print-data-base V=~\\w* VERBOSE=~\\w* Q=~@? DEBUG=~\\w* CI=~\\w* JOBS=~\\d*"
)
_CARGO = (
    "-q -v -p: -F: -r -j: -k --quiet --verbose --release --all --workspace --package: --exclude: --features: --all-features --no-default-features --lib "
    "--bins --bin: --example: --examples --test: --tests --bench: --benches --all-targets --doc --no-run --no-fail-fast --keep-going --locked "
    "--offline --frozen --jobs: --message-format: --color:~[a-z]+ --profile:~\\w+ --dry-run --fix --allow-dirty --allow-staged --no-deps --document-private-items "
    "--timings --target:~[a-z0-9_-]+"
)
_TEST_BINARY = "--nocapture --show-output --ignored --include-ignored --exact --test-threads: --skip: --list -q --quiet --color:~[a-z]+"
_GO = (
    "-v -x -n -a -race -cover -short -count: -run: -bench: -benchmem -benchtime: -timeout: -parallel: -cpu: -failfast -json -tags: -trimpath "
    "-list: -p: -shuffle: -skip: -msan -asan -fullpath -covermode: -coverpkg: -buildvcs="
)
_DIRECT = "-json -no-color -input= -lock= -refresh= -compact-warnings -parallelism= -lock-timeout= -detailed-exitcode -refresh-only -destroy"

_BUILD: Mapping[str, str] = {
    "make": _MAKE, "gmake": _MAKE, "ninja": "-v -n -k: -j: -l: -d: --verbose --quiet --version",
    "cmake": "-DCMAKE_BUILD_TYPE=~\\w+ -DCMAKE_EXPORT_COMPILE_COMMANDS=~\\w+ -DBUILD_TESTING=~\\w+ -DBUILD_SHARED_LIBS=~\\w+ -B:~(?!/|.*\\.\\.)[\\w./-]+ -S:~(?!/|.*\\.\\.)[\\w./-]+ -G:~(?:Ninja|Unix\\sMakefiles) "
    "-Wdev -Wno-dev -N -LA -L --build --target: --parallel= -j= --config:~\\w+ --clean-first --verbose -v --fresh --log-level:",
    "ctest": "-V -VV -N -Q -R: -E: -L: -LE: -j: --output-on-failure --verbose --parallel: --rerun-failed --stop-on-failure --timeout: --test-dir:~(?!/|.*\\.\\.)[\\w./-]+ -C:~\\w+ --quiet --progress",
    "gcc": _COMPILER, "g++": _COMPILER, "cc": _COMPILER, "c++": _COMPILER, "clang": _COMPILER, "clang++": _COMPILER,
    "cargo": "-q -v --quiet --verbose --locked --offline --frozen --color:~[a-z]+ --list", "cargo build": _CARGO, "cargo b": _CARGO, "cargo check": _CARGO, "cargo c": _CARGO,
    "cargo test": _CARGO, "cargo t": _CARGO, "cargo test --": _TEST_BINARY, "cargo t --": _TEST_BINARY, "cargo run": _CARGO, "cargo run --": "", "cargo clippy": _CARGO,
    "cargo clippy --": "-D:~(?:warnings|clippy::\\w+) -W:~(?:warnings|clippy::\\w+) -A:~[\\w:]+ --deny:~[\\w:]+ --allow:~[\\w:]+ --warn:~[\\w:]+",
    "cargo fmt": f"{_CARGO} --check", "cargo fmt --": "--check -l -v", "cargo doc": _CARGO, "cargo bench": _CARGO, "cargo clean": _CARGO, "cargo tree": f"{_CARGO} -d -i: -e: --depth: --invert: --duplicates",
    "cargo update": _CARGO, "cargo metadata": f"{_CARGO} --format-version:", "cargo fetch": _CARGO, "cargo add": f"{_CARGO} --dev --build --optional", "cargo remove": f"{_CARGO} --dev --build",
    "cargo nextest run": f"{_CARGO} -E: --no-capture --retries:",
    "go build": f"{_GO} -o:~(?!/|(?:.*/)?\\.|.*(?i:file)$)[\\w./-]*?(?<![\\w.])[a-z0-9_-]+", "go test": _GO, "go vet": _GO, "go run": _GO, "go list": f"{_GO} -m -f: -u -deps -test -e", "go mod tidy": "-v -x -e -go: -compat:",
    "go mod download": "-x -json", "go mod verify": "", "go mod graph": "", "go mod why": "-m -vendor", "go get": "-u -t -v -x -d -tags:", "go fmt": "-n -x", "go doc": "-all -short -src -u -c -cmd",
    "go version": "-m -v", "go env": "-json", "go generate": f"! {_GO}", "go install": f"! {_GO}", "go clean": "-n -x -r -i -cache -testcache", "go tool cover": "-func:",
    "gofmt": "-l -d -w -s -e", "rustfmt": "--check -l -v --edition:~\\d+ --color:~[a-z]+", "rustc": "--version -V -v --edition:~\\d+ -O -g --explain:",
    "dotnet build": "-c:~\\w+ --configuration:~\\w+ --no-restore -v:~\\w+ --nologo", "dotnet test": "-c:~\\w+ --configuration:~\\w+ --no-build --no-restore --filter: -v:~\\w+ --nologo --list-tests",
    "mvn": "-q -B -o -U -e -X -T: --batch-mode --quiet --offline -DskipTests= -Dtest=", "gradle": "-q -i --info --debug --stacktrace --offline --no-daemon --console=~[a-z]+ --parallel --continue -x: --tests: --dry-run --rerun-tasks",
}  # fmt: skip

DOWNLOADERS = frozenset("wget wget2 aria2c axel lftpget lwp-download youtube-dl yt-dlp".split())
"""Programs that write a file with a name from the URL, unless an option names it."""

_CURL = (
    "-k! -O! -J! --insecure! --remote-name! -s -S -L -f -I -i -v -G -g -N -4 -6 -q -# -X:~[A-Z]+ -H:~[^@].* -d:~[^@].* -A: -m: -u: -o:~/dev/null -w:~(?!@)(?!.*%output).* -e: --silent --show-error "
    "--location --fail --fail-with-body --head --include --verbose --get --globoff --no-buffer --ipv4 --ipv6 --disable --request:~[A-Z]+ --header:~[^@].* "
    "--data:~[^@].* --data-raw: --json:~[^@].* --user-agent: --max-time: --connect-timeout: --retry: --retry-delay: --retry-all-errors --compressed "
    "--user: --output:~/dev/null --write-out:~(?!@)(?!.*%output).* --http1.1 --http2 --progress-bar --no-progress-meter --max-redirs: --referer: "
    "--proto:~=?https?(?:,https)? --tlsv1.2 --limit-rate: --range: -r:"
)
_TAR = (
    "-P! -c -t -x -r -u -v -z -j -J -a -p -k -h -n -O -f:~[^:]* -C: --create --list --extract --get --append --update --verbose --gzip --bzip2 --xz --zstd "
    "--auto-compress --preserve-permissions --keep-old-files --skip-old-files --file:~[^:]* --directory: --strip-components: --exclude: --exclude-vcs "
    "--wildcards --no-same-owner --no-same-permissions --numeric-owner --totals --sort: --mtime: --owner: --group: --anchored --dereference --to-stdout"
)
_DOCKER_LIST = "-a -q -f: -n: -l -s --all --quiet --filter: --format: --no-trunc --last: --digests --size"
_KUBECTL = "-n: -A -o:~(?:json|yaml|wide|name|jsonpath=.*|custom-columns=.*) -l: -w --namespace: --all-namespaces --output:~(?:json|yaml|wide|name|jsonpath=.*|custom-columns=.*) --selector: --watch --field-selector: --show-labels --no-headers --sort-by: --show-kind --ignore-not-found --limit: --chunk-size:"
_GH = "-R: -L: -s: -q: -l: -a: -A: -S: --repo: --limit: --state: --json: --jq: --label: --assignee: --author: --search: --comments --patch --name-only --color:~[a-z]+ --log --log-failed --branch: -b: --workflow: --exit-status --verbose -v"

_SYSTEM: Mapping[str, str] = {
    "cp": "-r -R -a -v -p -n -u -f -i -L -P -H -d -x -T -t: --recursive --archive --verbose --no-clobber --update --force --preserve= --dereference --no-dereference --parents --no-target-directory --target-directory: --reflink= --sparse=",
    "mv": "-v -n -u -f -i -T -t: --verbose --no-clobber --update --force --no-target-directory --target-directory:",
    "ln": "-s -f -n -r -v -i -T -t: --symbolic --force --no-dereference --relative --verbose --no-target-directory --target-directory:",
    "install": "-d -v -D -p -m: -t: --directory --verbose --mode: --target-directory:",
    "sed": "-i! --in-place!", "awk": "-F: -v:", "gawk": "-F: -v:", "mawk": "-F: -v:",
    "dd": "if= bs= ibs= obs= count= skip= seek= status= conv= iflag= oflag=",
    "tar": _TAR, "bsdtar": _TAR, "gtar": _TAR, "gzip": "-k -d -f -v -l -t -n -N -c -q -# -r --keep --decompress --force --verbose --list --test --stdout", "gunzip": "-k -f -v -l -t -c",
    "zip": "-r -q -v -# -j -u -x: -y --recurse-paths --quiet", "unzip": "-l -v -q -o -n -t -j -p -x: -d:", "xz": "-k -d -f -v -l -t -c -#", "zstd": "-k -d -f -v -l -t -c -#",
    "rsync": "--delete! -a -v -z -r -l -p -t -g -o -D -n -h -P -c -u -x -H -i -q -m --archive --verbose --compress --recursive --dry-run --human-readable --progress --partial --stats --exclude: --include: --checksum --update --itemize-changes --info:~[a-z0-9,]+ --size-only",
    "curl": _CURL, **dict.fromkeys(DOWNLOADERS, ""), "wget": "-O:~(?:-|/dev/null) --output-document:~(?:-|/dev/null) -q -v -c -nv -S --quiet --no-verbose --continue --tries: -t: --timeout: -T: --spider --show-progress --server-response",
    "diff": "--no-dereference --label: -I: --ignore-matching-lines: --speed-large-files --left-column --normal -e --ed --tabsize:", "patch": "-p: -R -N -s -f -E --dry-run --strip: --reverse --forward --silent --quiet --force",
    "fd": "-H -I -e: -t: -d: -g -i -s -a -0 -1 -F -p -u -E: -c: --hidden --no-ignore --extension: --type: --max-depth: --glob --ignore-case --case-sensitive --absolute-path --fixed-strings --full-path --exclude: --color: --max-results: --changed-within: --size:",
    "yq": "-r -e -P -o:~[a-z]+ -p:~[a-z]+ -I: -n -N -C -M --prettyPrint --output-format:~[a-z]+ --input-format:~[a-z]+ --unwrapScalar= --exit-status --null-input --no-doc --no-colors",
    "openssl version": "-a -v", "split": "-b: -l: -n: -d -a: -x --bytes: --lines: --numeric-suffixes --suffix-length:", "less": "-N -S -R -F -X -i -I -n -M -E -Q", "man": "-k -f",
    "docker": "", "docker ps": _DOCKER_LIST, "docker images": _DOCKER_LIST, "docker image ls": _DOCKER_LIST, "docker container ls": _DOCKER_LIST, "docker volume ls": _DOCKER_LIST, "docker network ls": _DOCKER_LIST,
    "docker logs": "-f -t -n: --follow --tail: --since: --until: --timestamps --details", "docker inspect": "-f: -s --format: --size --type:", "docker stats": "-a --all --no-stream --format: --no-trunc",
    "docker top": "", "docker info": "-f: --format:", "docker version": "-f: --format:", "docker port": "", "docker diff": "", "docker history": "-q -H --no-trunc --format:", "docker pull": "-q -a --quiet --all-tags --platform:",
    "docker stop": "-t: --time:", "docker start": "", "docker restart": "-t: --time:", "docker rm": "-f -v --force --volumes", "docker rmi": "-f --force --no-prune", "docker search": "--limit: --filter: -f: --no-trunc",
    "docker build": "! -t: --tag: -q --quiet --no-cache --pull --target: --build-arg: --progress:~[a-z]+ --platform:", "docker push": "! -q -a --quiet --all-tags", "docker tag": "",
    "kubectl": "", "kubectl get": _KUBECTL, "kubectl describe": "-n: -A -l: --namespace: --all-namespaces --selector: --show-events=", "kubectl logs": "-n: -f -c: -l: -p --namespace: --follow --container: --tail: --since: --timestamps --previous --all-containers= --prefix --selector: --max-log-requests:",
    "kubectl explain": "--recursive --api-version:", "kubectl top pods": "-n: -A -l: --containers --sort-by:", "kubectl top nodes": "-l: --sort-by:", "kubectl api-resources": "-o:~[a-z]+ --namespaced= --verbs: --api-group:", "kubectl version": "--client -o:~[a-z]+ --short",
    "kubectl cluster-info": "", "kubectl config current-context": "", "kubectl config get-contexts": "-o:~name", "kubectl rollout status": "-n: -w --namespace: --watch= --timeout:", "kubectl rollout history": "-n: --namespace: --revision:",
    "kubectl apply": "! -n: --namespace: --dry-run=~[a-z]+ --server-side --wait --prune --timeout:", "kubectl delete": "! -n: -l: --namespace: --all --force --wait= --grace-period: --ignore-not-found= --timeout: --dry-run=~[a-z]+", "kubectl scale": "! -n: --replicas:",
    "terraform fmt": "-check -diff -recursive -list= -write= -no-color", "terraform validate": "-json -no-color", "terraform plan": f"{_DIRECT} -target=", "terraform show": "-json -no-color", "terraform output": "-json -raw -no-color", "terraform version": "-json",
    "terraform state list": "-id=", "terraform state show": "", "terraform providers": "", "terraform providers schema": "-json", "terraform graph": "-type=~[a-z-]+", "terraform workspace list": "", "terraform workspace show": "", "terraform init": f"! {_DIRECT} -upgrade -reconfigure -backend=~(?:true|false)", "terraform apply": f"! {_DIRECT} -auto-approve -target=", "terraform destroy": f"! {_DIRECT} -auto-approve -target=",
    "gh pr list": _GH, "gh pr view": _GH, "gh pr status": _GH, "gh pr diff": _GH, "gh pr checks": "-R: --repo: --watch --required --json: --fail-fast", "gh issue list": _GH, "gh issue view": _GH, "gh issue status": _GH, "gh run list": _GH, "gh run view": _GH, "gh run watch": "-R: --exit-status",
    "gh repo view": "-b: --branch: --json: -q: --jq:", "gh repo list": _GH, "gh release list": _GH, "gh release view": _GH, "gh auth status": "-h: --hostname: -a --active", "gh search": _GH, "gh workflow list": _GH, "gh label list": _GH,
    "gh pr create": "-t: -b: -B: -H: -R: -l: -r: -a: -d -f --title: --body: --base: --head: --repo: --label: --reviewer: --assignee: --draft --fill --fill-first --milestone:", "gh pr comment": "-b: -R: --body: --repo:", "gh issue create": "-t: -b: -R: -l: -a: --title: --body: --label: --assignee: --repo:",
    "gh issue comment": "-b: -R: --body: --repo:",
}  # fmt: skip

HARMLESS: Mapping[str, str] = {**_GIT, **_NODE, **_PYTHON, **_BUILD, **_SYSTEM}
"""The options, by program and subcommand."""

EXACT_OPTIONS = frozenset("go terraform gcc g++ cc c++ clang clang++ cmake ctest mvn".split())
"""Programs that do not accept two short options in one word."""

EXACT_VALUES = frozenset(("go", "terraform"))
"""Programs whose short options do not accept a value in the same word."""

NO_END = frozenset(
    "gcc g++ cc c++ clang clang++ tsc cmake ctest unzip mvn gradle dotnet openssl npm pnpm yarn cargo".split()
)
"""Programs that parse options after ``--`` too, or pass them to another program."""

GREEDY = frozenset("git gh curl tar bsdtar gtar docker kubectl".split())
"""Programs that use the next word as the value of an option, whatever it is."""

OLD_STYLE = frozenset("tar bsdtar gtar".split())
"""Programs whose first word may contain options without a dash."""

SLASH_OPTIONS = frozenset(("dotnet", "msbuild"))
"""Programs whose options may begin with a slash."""

PLAIN_AT = frozenset("git npm npx pnpm yarn bun gh docker cargo go".split())
"""Programs for which a word that begins with ``@`` is not a file with more options."""

DASH_FILE_RISK = frozenset("tar bsdtar gtar rsync zip scp".split())
"""Programs for which names of files that begin with a dash are dangerous options."""

NAMES_ITS_SETTINGS = frozenset("make gmake dd cmake".split())
"""Programs for which a word such as ``NAME=VALUE`` is a setting."""
