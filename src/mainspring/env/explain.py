"""Words for what the operating system refused."""

from __future__ import annotations

import errno

_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "permission denied by the operating system",
    errno.EPERM: "the operating system does not permit it",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ELOOP: "its symbolic links form a loop",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EINVAL: "it is no valid path",
    errno.E2BIG: "the arguments are too long",
    errno.ENOEXEC: "it is not executable",
}


def explain(error: OSError) -> str:
    """Why it failed, as the second half of a sentence: ``cannot read x: it does not exist``."""
    known = _REASONS.get(error.errno or 0)
    if known and error.errno not in (errno.EINVAL, errno.EPERM):
        return known
    return error.strerror or known or str(error) or type(error).__name__
