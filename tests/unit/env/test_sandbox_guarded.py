"""Commands in a sandbox leave no files that run later outside of it, and a linked worktree and a submodule can commit."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mainspring.env.paths import GUARDED_NAMES
from mainspring.env.sandbox import SandboxBackend, SandboxEnv, lockdown
from mainspring.env.sandbox.guarded import GuardedTree, is_guarded, is_harmless, linked_repository
from mainspring.env.sandbox.policy import make_policy
from mainspring.permissions.sensitive_paths import SensitivePaths
from tests.helpers.git import git
from tests.helpers.sandboxes import LAYERS, layer
from tests.requires import skip_missing

pytestmark = pytest.mark.slow


@pytest.fixture(params=LAYERS)
def provider(request: pytest.FixtureRequest) -> SandboxBackend:
    return layer(request.param)


def isolate_git(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Hide the user's Git settings, and set an author."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")


@pytest.fixture
def base_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder outside of /tmp with a home folder, isolated from the user's Git settings."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "home").mkdir()
        isolate_git(monkeypatch, Path(folder) / "home")
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder).resolve()
        monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture(scope="module")
def prepared_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project to copy for each test: git starts a dozen processes to make it."""
    folder = tmp_path_factory.mktemp("prepared")
    for path, text in {
        "a": "1",
        "kept/AGENTS.md": "good",
        "kept/.agent/settings.json": "{}",
        "target/f": "good",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "linked").mkdir()
    (folder / "linked" / ".claude").symlink_to("../target")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate_git(monkeypatch, folder)
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "a")
        git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def project(base_folder: Path, prepared_project: Path) -> Path:
    return shutil.copytree(prepared_project, base_folder / "project", symlinks=True)


@pytest.fixture
async def env(provider: SandboxBackend, project: Path) -> AsyncIterator[SandboxEnv]:
    sandbox = SandboxEnv(project, provider=provider)
    yield sandbox
    await sandbox.aclose()


def guarded_files(root: Path) -> dict[str, str]:
    """Return the content of the guarded files of a project by their path."""
    tree = GuardedTree(str(root)).find()
    files: dict[str, str] = {}
    waiting = list(tree.all)
    while waiting:
        path = Path(waiting.pop())
        if path.is_symlink():
            files[str(path.relative_to(root))] = os.readlink(path)
        elif path.is_dir():
            waiting += [str(each) for each in path.iterdir()]
        elif not is_harmless(str(path)) or "EVIL" in path.read_text():
            files[str(path.relative_to(root))] = path.read_text()
    return files


NEW = [
    ".agent/commands/review.md",
    ".agent/extensions/x.py",
    ".agents/skills/a/SKILL.md",
    ".claude/settings.json",
    ".cursor/rules/x.mdc",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".mcp.json",
    ".husky/pre-commit",
    ".envrc",
    ".agentignore",
    ".git/commondir",
    ".git/config.worktree",
    ".git/hooks/pre-commit",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    "sub/AGENTS.md",
    "new/deep/CLAUDE.md",
    "sub/.agent/commands/a.md",
    "sub/.mcp.json",
    "mcp.json",
    "sub/mcp.json",
]

SCRIPTS = [
    *(f"mkdir -p $(dirname {path}); echo EVIL > {path}" for path in NEW),
    "echo EVIL >> .git/config",
    "git config core.fsmonitor EVIL",
    "mv .git other; cp -r other .git; echo EVIL >> .git/config",
    "rm -rf .git/hooks; mkdir h; echo EVIL > h/pre-commit; ln -s ../h .git/hooks",
    "git init -q nest; git -C nest config core.fsmonitor EVIL",
    "git init -q nest; echo EVIL > nest/.git/hooks/post-commit",
    "git init -q --bare store; git -C store config core.fsmonitor EVIL; mkdir g; echo gitdir: ../store > g/.git",
    "git worktree add -q wt -b w; echo EVIL > .git/worktrees/wt/config.worktree",
    "git worktree add -q wt -b w; echo EVIL > .git/worktrees/wt/commondir",
    "mkdir -p .git/modules/n/{refs,objects}; echo x > .git/modules/n/HEAD; echo EVIL > .git/modules/n/config",
    "mkdir e; echo EVIL > e/settings.json; ln -s e .agent",
    "mkdir -p e/commands; echo EVIL > e/commands/x.md; mv e .agent",
    "(sleep 0.2; mkdir -p .agent; echo EVIL > .agent/late) & wait",
    "echo EVIL >> kept/AGENTS.md",
    "rm -rf kept/.agent; mkdir kept/.agent; echo EVIL > kept/.agent/settings.json",
    "mv kept k2; mkdir kept; echo EVIL > kept/AGENTS.md",
    "echo EVIL > linked/.claude/g",
    "echo EVIL > target/f",
    "rm linked/.claude; mkdir linked/.claude; echo EVIL > linked/.claude/x",
    "ln -sfn /tmp linked/.claude",
    "mkdir s; echo EVIL > s/AGENTS.md; chmod 555 s",
    "mkdir s; echo EVIL > s/AGENTS.md; chmod 111 s",
    "mkdir -p s/.agent/commands; echo EVIL > s/.agent/commands/x.md; chmod 111 s/.agent s",
    "mkdir .Agent; echo EVIL > .Agent/settings.json",
    "mkdir s; echo EVIL > s/agents.MD",
    "cp -r .git inner; mv inner .git/inner; echo EVIL > .git/inner/config",
    "mkdir -p .git/lfs/x/hooks; echo EVIL > .git/lfs/x/hooks/post-checkout; echo EVIL > .git/lfs/x/config",
    "mkdir -p .git/modules/new/hooks; echo EVIL > .git/modules/new/hooks/pre-commit",
    "mkdir -p .git/modules/new/info; echo EVIL > .git/modules/new/info/attributes; echo EVIL > .git/modules/config",
    "mkdir -p .git/worktrees/w/x; echo EVIL > .git/worktrees/w/x/config; echo EVIL > .git/worktrees/config",
    "ln -s /tmp .git/refs/out; ln -s /tmp/x .git/objects/aa; ln -s /tmp .git/objects/pack/p; ln -s /tmp .git/logs/out",
    "ln -s /tmp .git/MERGE_HEAD; ln -s /tmp/x .git/info/sparse-checkout; ln -s /tmp .git/rr-cache",
    "echo EVIL > .git/refs/heads/config; echo EVIL > .git/refs/commondir; echo EVIL > .git/logs/gitdir",
    "mkdir -p .git/refs/x/{objects,refs}; cp .git/HEAD .git/refs/x/; echo EVIL > .git/refs/x/y",
    "mkdir -p .git/logs/x/y; echo EVIL > .git/logs/x/commondir; cp .git/HEAD .git/logs/x/",
    "mkdir -p .git/objects/aa/x; echo EVIL > .git/objects/aa/config; echo EVIL > .git/objects/aa/x/hooks",
    "mkdir -p .git/worktrees/w; echo EVIL > .git/worktrees/w/gitdir; echo EVIL > .git/refs/heads/.git; echo EVIL > .git/config.lock",
    "mkdir .git/rebase-merge; echo 'exec EVIL' > .git/rebase-merge/git-rebase-todo",
    "mkdir -p .git/branches .git/remotes; echo EVIL > .git/branches/x; echo EVIL > .git/remotes/x; echo EVIL > .git/info/grafts",
    "git init -q nest; cp -r nest/.git nest/.git/inner; echo EVIL > nest/.git/inner/config",
    "git init -q .GIT2 && mv .GIT2/.git s.git && echo EVIL > s.git/hooks/pre-commit",
    "git init -q nest; mkfifo nest/.git/commondir",
    "git init -q nest; rm nest/.git/config; mkfifo nest/.git/config",
    "mkdir s; mkfifo s/AGENTS.md .mcp.json",
    "mkdir -p $'s\\nx'; echo EVIL > $'s\\nx/AGENTS.md'",
    "mkdir -p $'s\\xff'; echo EVIL > $'s\\xff/AGENTS.md'",
]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_no_guarded_file_is_changed_or_created(env: SandboxEnv, project: Path, script: str) -> None:
    before = guarded_files(project)

    await env.run(script, timeout=120)

    after = guarded_files(project)
    assert {p: text for p, text in after.items() if p in before and text != before[p]} == {}
    assert {p: text for p, text in after.items() if p not in before and not p.startswith("k2/")} == {}
    assert (project / "target" / "f").read_text() == "good"


async def test_new_guarded_file_is_moved_and_reported(env: SandboxEnv, project: Path) -> None:
    result = await env.run("mkdir -p .agent/commands && echo mine > .agent/commands/x.md", timeout=120)

    assert result.exit_code == 0
    assert "undid changes of .agent/commands/x.md" in result.stderr.text
    assert not (project / ".agent").exists()
    folder = Path(result.stderr.text.partition("New content is in ")[2].split(". ")[0])
    assert [p.read_text() for p in folder.rglob("x.md")] == ["mine\n"]
    shutil.rmtree(folder)


ORDINARY = [
    "git add -A && git commit -qm second && git status",
    "echo 1 > AGENTS.md",
    "git init -q nest && git -C nest commit -q --allow-empty -m first",
    "git clone -q . sub/copy",
    "git worktree add -q wt -b w && git -C wt commit -q --allow-empty -m second",
    "git init -q --bare store.git",
    "git checkout -q -b other && git tag v1 && git pack-refs --all && git gc -q",
    "mkdir -p a1/b1 && touch a1/b1/c && mv a1 a2 && rm -r a2",
    "git branch config && git branch hooks/x && git checkout -q config && git commit -q --allow-empty -m second",
    "git checkout -q -b l && echo 2 > a && git commit -qam l && git checkout -q main && echo 3 > a && git commit -qam m && ! git merge l >/dev/null"
    " && echo 4 > a && git commit -qam n && git stash list && echo 5 > a && git stash -q && git stash pop -q && git checkout -q . && git gc -q --aggressive"
    " && git notes add -m x && git bisect start >/dev/null && git bisect reset -q >/dev/null 2>&1; git repack -adq && git commit-graph write --reachable 2>/dev/null",
    "echo 2 > a && git commit -qam 2 && echo 3 > a && git commit -qam 3 && GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~2 2>/dev/null",
]


@pytest.mark.parametrize("script", ORDINARY)
async def test_ordinary_commands_are_not_affected(env: SandboxEnv, script: str) -> None:
    result = await env.run(script, timeout=120)

    assert (result.exit_code, result.stderr.text) == (0, "")


async def test_guarded_folder_can_be_made_writable(provider: SandboxBackend, project: Path) -> None:
    (project / ".agent" / "skills").mkdir(parents=True)
    env = SandboxEnv(project, provider=provider, writable=[".agent/skills"])

    finished = await env.run("echo mine > .agent/skills/x && echo EVIL > .agent/commands", timeout=120)
    await env.write_bytes(".agent/skills/y", b"mine")
    await env.aclose()

    assert sorted(p.name for p in (project / ".agent" / "skills").iterdir()) == ["x", "y"], finished.stderr.text
    assert not (project / ".agent" / "commands").exists()


@pytest.mark.parametrize("path", [".agent/x", "sub/AGENTS.md", "sub/.mcp.json", ".git/hooks/x", "sub/.git/config"])
async def test_file_tools_cannot_write_guarded_files(env: SandboxEnv, path: str) -> None:
    with pytest.raises(PermissionError, match="run later"):
        await env.write_bytes(path, b"x")


async def test_changes_by_the_user_between_commands_are_kept(env: SandboxEnv, project: Path) -> None:
    await env.run("true", timeout=120)
    (project / ".agent" / "commands").mkdir(parents=True)
    (project / ".agent" / "commands" / "mine.md").write_text("mine")
    (project / "kept" / "AGENTS.md").write_text("better")

    result = await env.run("true", timeout=120)

    assert result.stderr.text == ""
    assert (project / ".agent" / "commands" / "mine.md").read_text() == "mine"
    assert (project / "kept" / "AGENTS.md").read_text() == "better"


# --- linked worktrees -------------------------------------------------------------------------------------------------


@pytest.fixture
def worktree(project: Path) -> Path:
    git(project, "worktree", "add", "-q", "../wt", "-b", "work")
    git(project, "worktree", "add", "-q", "../other", "-b", "other")
    return project.parent / "wt"


async def test_linked_worktree_can_commit(provider: SandboxBackend, worktree: Path, project: Path) -> None:
    env = SandboxEnv(worktree, provider=provider)
    finished = await env.run(
        "echo x > new && git add new && git commit -qm second && git tag v1 && git branch b2", timeout=120
    )
    await env.aclose()

    assert (finished.exit_code, finished.stderr.text) == (0, "")
    assert git(project, "log", "-1", "--format=%s", "work") == "second"
    assert git(worktree, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "script",
    [
        "echo EVIL > {git}/hooks/pre-commit",
        "git config core.fsmonitor EVIL",
        "echo EVIL >> {git}/config",
        "echo EVIL > {git}/commondir",
        "echo EVIL > {git}/config.worktree",
        "echo EVIL > {git}/info/attributes",
        "echo EVIL > {git}/objects/info/alternates",
        "echo EVIL > {git}/worktrees/wt/commondir",
        "echo EVIL > {git}/worktrees/wt/config.worktree",
        "echo EVIL > {git}/worktrees/other/HEAD",
        "echo EVIL > {git}/worktrees/other/commondir",
        "mkdir {git}/worktrees/third && echo EVIL > {git}/worktrees/third/commondir",
        "rm -rf {git}/worktrees/other",
        "echo gitdir: /tmp > .git",
    ],
)
async def test_hooks_and_config_of_the_main_repository_are_unchanged(
    provider: SandboxBackend, worktree: Path, project: Path, script: str
) -> None:
    def read_git_files() -> dict[str, str]:
        files = [p for p in (project / ".git").rglob("*") if p.is_file() and "objects/" not in str(p)]
        files += [worktree / ".git", project / ".git/objects/info/alternates"]
        return {str(p): p.read_text(errors="replace") for p in files if p.exists()}

    before = read_git_files()
    env = SandboxEnv(worktree, provider=provider)
    await env.run(script.format(git=project / ".git"), timeout=120)
    await env.aclose()

    assert read_git_files() == before


@pytest.fixture
def submodule(project: Path, base_folder: Path) -> Path:
    git(base_folder, "clone", "-q", str(project), "origin")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../origin", "my lib")
    git(project, "commit", "-qm", "submodule")
    return project / "my lib"


async def test_submodule_can_commit_and_its_hooks_and_config_are_unchanged(
    provider: SandboxBackend, submodule: Path, project: Path
) -> None:
    folder = project / ".git/modules/my lib"
    config = (folder / "config").read_text()
    env = SandboxEnv(submodule, provider=provider)
    finished = await env.run(
        "echo x > new && git add new && git commit -qm second && git tag v1 && git switch -qc b2", timeout=120
    )
    for script in (
        "echo EVIL > '{git}/hooks/pre-commit'",
        "git config core.fsmonitor EVIL",
        "echo EVIL > '{git}/config.worktree'",
        "echo EVIL > '{git}/info/attributes'",
        "echo EVIL > '{git}/../../hooks/pre-commit'",
        "echo EVIL > '{git}/../../index.lock'",
        "echo gitdir: /tmp > .git",
    ):
        await env.run(script.format(git=folder), timeout=120)
    await env.aclose()

    assert (finished.exit_code, finished.stderr.text) == (0, "")
    assert git(submodule, "log", "-1", "--format=%s %D") == "second HEAD -> b2, tag: v1, main"
    assert (folder / "config").read_text() == config
    assert not any(
        os.path.lexists(folder / name) for name in ("hooks/pre-commit", "config.worktree", "info/attributes")
    )
    assert not any(os.path.lexists(project / ".git" / name) for name in ("hooks/pre-commit", "index.lock"))
    assert (submodule / ".git").read_text() == "gitdir: ../.git/modules/my lib\n"


def test_project_cannot_point_to_a_foreign_repository(
    project: Path, worktree: Path, submodule: Path, base_folder: Path
) -> None:
    own = str(project / ".git/modules/my lib")
    assert linked_repository(str(submodule)) == (own, own)
    assert linked_repository(str(worktree)) == (str(project / ".git"), str(project / ".git/worktrees/wt"))
    hostile = base_folder / "hostile"
    hostile.mkdir()
    for target in (
        *(".git", ".git/worktrees/wt", ".git/worktrees/../worktrees/other", ".git/worktrees/none"),
        ".git/modules/my lib",
    ):
        (hostile / ".git").write_text(f"gitdir: {project}/{target}\n")
        assert linked_repository(str(hostile)) is None
    (hostile / ".git").unlink()
    (hostile / ".git").symlink_to(worktree / ".git")
    assert linked_repository(str(hostile)) is None


async def test_git_reads_a_repository_that_is_not_the_project(
    provider: SandboxBackend, project: Path, base_folder: Path
) -> None:
    """In a subfolder, with a linked git folder, and with objects that `git clone --reference` borrows from another repository."""
    linked, borrowing = base_folder / "linked", base_folder / "borrowing"
    git(base_folder, "clone", "-q", "--shared", str(project), "borrowing")
    git(base_folder, "clone", "-q", "--separate-git-dir", str(base_folder / "elsewhere"), str(project), "linked")
    (linked / ".git").unlink()
    (linked / ".git").symlink_to(base_folder / "elsewhere")
    for folder in (project / "kept", linked, borrowing):
        env = SandboxEnv(folder, provider=provider)
        finished = await env.run("git show --stat --format=%s HEAD", timeout=120)
        await env.aclose()
        assert (finished.exit_code, finished.stderr.text) == (0, ""), folder


def test_project_cannot_make_other_folders_readable_through_git(project: Path, base_folder: Path) -> None:
    private = base_folder / "private" / "objects"
    private.mkdir(parents=True)
    (project / ".git" / "objects" / "info" / "alternates").write_text(f"{private}\n{private.parent}\n")
    hostile = base_folder / "hostile"
    hostile.mkdir()
    (hostile / ".git").symlink_to(private.parent)
    for folder in (project, hostile):
        box = make_policy(str(folder), home=str(base_folder / "home"), tmp="/private")
        assert not box.can_read(str(private))


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".agent", True),
        (".Agent/x", True),
        ("a/b/.vscode/x", True),
        ("AGENTS.md", False),
        ("a/AGENTS.md", True),
        ("a/agents.py", False),
        (".git/HEAD", False),
        (".git/refs/heads/config", False),
        (".git/config", True),
        (".git/modules/x/config", True),
        (".git/inner/config", True),
        (".git/objects/aa/config", True),
        (".git/objects/info/alternates", True),
        (".git/index.lock", False),
        ("src/config", False),
        ("", False),
    ],
)
def test_is_guarded_checks_names(path: str, expected: bool) -> None:
    assert is_guarded(f"/p/{path}".rstrip("/"), "/p") is expected
    assert not is_guarded(f"/p2/{path}", "/p")


@pytest.mark.parametrize("name", GUARDED_NAMES)
def test_names_that_need_approval_are_guarded(name: str) -> None:
    full = ("p", "src", name.replace("*", "x"))

    assert is_guarded("/" + "/".join(full).upper().replace("P/SRC", "p/src"), "/p")
    assert SensitivePaths.default().reason(full, full[1:], changes=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[core]\n\tbare = false\n[remote "o"]\n\turl = https://x/y\n', True),
        ("[core]\n\tfsmonitor = x\n", False),
        ("[CORE]FSMonitor=x\n", False),
        ("[core] bare = false\n[core]\n\teditor = \\\nx\n", False),
        ('[remote "o"]\n\turl = ext::sh -c x\n', False),
        ('[remote "o"]\n\tuploadpack = x\n', False),
        ("[include]\n\tpath = x\n", False),
        ('[includeIf "gitdir:x"]\n\tpath = x\n', False),
        ("[alias]\n\tst = !x\n", False),
        ('[filter "x"]\n\tclean = y\n', False),
        ('[submodule "m"]\n\turl = ../x\n\tupdate = !y\n', False),
        ("[core]\n\tworktree = ../../../m\n", True),
        ("[core]\n\thooksPath = x\n", False),
        ("[core\n", False),
        ("[]\n\tx = y\n", False),
    ],
)
def test_is_harmless_checks_git_config(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "config").write_text(text)
    assert is_harmless(str(tmp_path / "config")) is expected


def test_recently_changed_folder_is_read_again(tmp_path: Path) -> None:
    tree = GuardedTree(str(tmp_path))
    for n in range(50):
        (tmp_path / f"d{n}").mkdir()
        assert len(tree.find().names) == n
        (tmp_path / f"d{n}" / "AGENTS.md").write_text("x")
        assert len(tree.find().names) == n + 1


# --- keyrings ---------------------------------------------------------------------------------------------------------

_KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout


async def test_kernel_keyring_of_the_caller_cannot_be_read(env: SandboxEnv) -> None:
    if os.uname().machine not in _KEYS:
        skip_missing("a machine whose numbers of system calls are known")
    add, request, keyctl = _KEYS[os.uname().machine]
    script = textwrap.dedent(
        f"""
        import ctypes
        c = ctypes.CDLL(None, use_errno=True)
        found = []
        for ring in (-1, -2, -3, -4, -5):
            key = c.syscall({keyctl}, 10, ring, b"user", b"mainspring-test", 0)
            text = ctypes.create_string_buffer(64)
            if key > 0 and c.syscall({keyctl}, 11, key, text, 64) > 0:
                found.append(text.value)
        found += [k for k in [c.syscall({request}, b"user", b"mainspring-test", None, 0)] if k > 0]
        found += [k for k in [c.syscall({add}, b"user", b"new", b"x", 1, -3)] if k > 0]
        print(found)
        """
    )
    program = [sys.executable, "-I", "-c", script]
    adder = (
        f"import ctypes; c = ctypes.CDLL(None); print(c.syscall({add}, b'user', b'mainspring-test', b'SECRET', 6, -4))"
    )
    key = int(run_python(adder))
    if key < 0:
        skip_missing("keyrings of the kernel")
    try:
        outside = run_python(script)
        inside = await env.run(program, timeout=120)
        listed = await env.run(["cat", "/proc/keys"], timeout=120)
    finally:
        run_python(f"import ctypes; ctypes.CDLL(None).syscall({keyctl}, 3, {key})")

    assert "SECRET" in outside, "the key can be read without a sandbox"
    assert inside.stdout.text == "[]\n", inside.stderr.text
    assert "mainspring-test" not in listed.stdout.text
    assert env.state().keyring


def test_keyring_calls_are_filtered_with_and_without_network() -> None:
    if os.uname().machine not in _KEYS:
        skip_missing("a machine whose numbers of system calls are known")
    closed, open_ = lockdown.filter_of_calls((1, 16)), lockdown.filter_of_calls(None)
    assert len(closed) % 8 == len(open_) % 8 == 0
    for number in _KEYS[os.uname().machine]:
        step = number.to_bytes(4, "little")
        assert any(closed[at + 4 : at + 8] == step for at in range(0, len(closed), 8))
        assert any(open_[at + 4 : at + 8] == step for at in range(0, len(open_), 8))
