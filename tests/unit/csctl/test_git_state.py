"""What csctl tells of a repository that a run is submitted from, and what it does not run."""

import os
import subprocess

import pytest

from csctl.git_state import git_state

_WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
_ENVIRONMENT = {
    **_WHO,
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "PATH": os.environ["PATH"],
}


def git(where, *words):
    done = subprocess.run(
        ["git", *words], cwd=where, env=_ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q", "-b", "main")
    (root / "train.py").write_text("pass\n")
    (root / "sub").mkdir()
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    return root


@pytest.fixture
def repository(template, tmp_path):
    subprocess.run(["cp", "-a", f"{template}/.", tmp_path / "it"], check=True)
    return tmp_path / "it"


def known(directory):
    state = git_state(directory)
    return None if state is None else (state.commit, state.is_dirty)


def test_a_clean_and_a_changed_checkout_are_told_apart(repository):
    head = git(repository, "rev-parse", "HEAD")
    assert known(repository) == (head, False)
    (repository / "notes.txt").write_text("not tracked\n")
    assert known(repository / "sub") == (head, False)
    os.utime(repository / "train.py", (1, 1))
    assert known(repository) == (head, False)
    (repository / "train.py").write_text("done\n")
    assert known(repository / "sub") == (head, True)


@pytest.mark.parametrize("way", ["packed", "detached", "worktree"])
def test_the_commit_is_found_however_git_keeps_it(repository, way):
    head, where = git(repository, "rev-parse", "HEAD"), repository
    if way == "packed":
        git(repository, "pack-refs", "--all")
    elif way == "detached":
        git(repository, "checkout", "-q", "--detach")
    else:
        where = repository.parent / "tree"
        git(repository, "worktree", "add", "-q", str(where))
    assert known(where) == (head, False)


def test_a_directory_without_a_repository_or_a_commit_has_no_state(tmp_path):
    assert known(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert known(tmp_path) is None


def test_no_program_that_a_repository_names_is_run(repository):
    head, trace = git(repository, "rev-parse", "HEAD"), repository.parent / "ran"
    hook = repository.parent / "hook"
    hook.write_text(f"#!/bin/sh\necho $0 >> {trace}\ncat\n")
    hook.chmod(0o755)
    for name in ("core.fsmonitor", "filter.x.clean", "core.hooksPath", "diff.x.textconv"):
        git(repository, "config", name, str(hook))
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".gitattributes").write_text("*.py filter=x diff=x\n")
    (repository / "train.py").write_text("done\n")
    assert known(repository) == (head, True)
    assert not trace.exists()


@pytest.mark.parametrize(
    "head",
    ["ref: ../../secret", "ref: refs/../../secret", "x" * 40, "", "ref: refs/heads/none", "\0"],
)
def test_a_head_that_leads_nowhere_or_elsewhere_is_no_commit(tmp_path, head):
    (tmp_path / ".git").mkdir()
    (tmp_path / "secret").write_text("0" * 40)
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert known(tmp_path) is None


def test_a_pipe_in_place_of_a_file_of_git_is_not_waited_for(tmp_path):
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert known(tmp_path) is None
