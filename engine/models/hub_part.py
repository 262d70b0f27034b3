"""Fetches one large file of the hub into its cache so that a download which was stopped goes on where it stopped.

huggingface_hub begins every file anew (its temporary names are unique). Here the bytes go to a file that is named by
the content's digest, beside where the cache wants it, and are moved there when all have come; `snapshot_download`
then finds them there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import filelock

LARGE = 4 << 20  # bytes from which going on is worth it
CHUNK = 1 << 20  # bytes written at once, and lost at most
SUFFIX = ".cutaway-part"


def here(repo_folder: Path) -> int:
    """Bytes of files that were begun and not finished."""
    begun = 0
    for part in (repo_folder / "blobs").glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # finished meanwhile
            begun += part.stat().st_size
    return begun


def fetch(repo: str, name: str, commit: str, repo_folder: Path) -> None:
    """Bring the file `name` of a repository to its place among the blobs of `repo_folder`.

    Raises what huggingface_hub raises, and `OSError`.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    try:
        from huggingface_hub.file_download import http_get
    except ImportError:
        return  # a later version has it elsewhere: the ordinary way begins anew, and works
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    url = hf_hub_url(repo, name, revision=commit)
    metadata = get_hf_file_metadata(url)
    if not metadata.etag or not metadata.size:
        return  # the ordinary way will say what is wrong
    blob = repo_folder / "blobs" / metadata.etag
    part = blob.with_name(blob.name + SUFFIX)
    part.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(part.with_name(part.name + ".lock")):
        if blob.exists():
            return  # another program fetched it while this one waited
        with part.open("ab", buffering=0) as file:
            begun = file.tell()
            if begun > metadata.size:
                file.truncate(0)
                begun = 0
            http_get(url, file, resume_size=begun, headers=build_hf_headers(), expected_size=metadata.size)
        part.replace(blob)
    part.with_name(part.name + ".lock").unlink(missing_ok=True)
