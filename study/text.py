"""Text that every machine with Python has: the sources and documents of its installed packages.

Goes in: the folders of the standard library and of the installed packages. Comes out: two lists of
tokens, one to train on (Python sources) and one to fine-tune on (documents and C headers), and what
they were made of. The same files give the same tokens.

A token is a byte or one of the most frequent words. A word that is not among them is spelled in
bytes, so no training of a tokenizer is needed.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import sysconfig
from array import array
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

PIECES = re.compile(rb" ?[A-Za-z]+|\d|[ \t]+|\n+|[^A-Za-z\d\s]")
DOCUMENTS = {".md", ".rst", ".txt", ".h", ".hpp", ".cuh"}
# Python's own help texts are a document, though their name ends in .py.
DOCUMENT_NAMES = {"METADATA", "topics.py"}


@dataclass
class Text:
    """Tokens to train on and to fine-tune on."""

    train: array[int]
    other: array[int]
    # The bytes of each token.
    words: list[bytes]
    facts: dict[str, Any]


def files(wide: bool) -> tuple[list[Path], list[Path]]:
    """Sources and documents, in an order that mixes packages and is the same each time.

    Only the standard library, unless `wide` asks for installed packages too.
    """
    roots = [Path(sysconfig.get_path("stdlib"))]
    if wide:
        roots.append(Path(sysconfig.get_path("purelib")))
    sources, documents = [], []
    for root in roots:
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if inside.parts[0] in ("site-packages", "dist-packages") or not path.is_file():
                continue
            key = hashlib.sha256(inside.as_posix().encode()).digest()
            if path.suffix in DOCUMENTS or path.name in DOCUMENT_NAMES:
                documents.append((key, path))
            elif path.suffix == ".py":
                sources.append((key, path))
    return [path for _, path in sorted(sources)], [path for _, path in sorted(documents)]


def read(paths: list[Path], limit: int) -> list[bytes]:
    """Files until there are `limit` bytes of them; each at most a hundredth of that."""
    found, total = [], 0
    for path in paths:
        data = path.read_bytes()[: limit // 100]
        found.append(data)
        total += len(data)
        if total >= limit:
            break
    return found


def count(data: bytes) -> Counter[bytes]:
    """How often each piece occurs."""
    return Counter(PIECES.findall(data))


def encode(ids: dict[bytes, int], data: bytes) -> bytes:
    """The tokens of a file, as an array's bytes."""
    tokens = array("H")
    for piece in PIECES.findall(data):
        token = ids.get(piece)
        if token is None:
            tokens.extend(piece)
        else:
            tokens.append(token)
    return tokens.tobytes()


def load(vocabulary: int, limit: int, wide: bool) -> Text:
    """Reads `limit` bytes of sources, and at most a fifth as much of documents."""
    found = files(wide)
    sources, documents = read(found[0], limit), read(found[1], limit // 5)
    with multiprocessing.get_context("fork").Pool() as pool:
        frequent: Counter[bytes] = Counter()
        for counted in pool.imap(count, sources, chunksize=32):
            frequent.update(counted)
        words = [bytes([byte]) for byte in range(256)]
        ranked = sorted(frequent.items(), key=lambda item: (-item[1], item[0]))
        words += [word for word, _ in ranked if len(word) > 1][: vocabulary - 256]
        ids = {word: token for token, word in enumerate(words)}
        parts = []
        for kind in (sources, documents):
            tokens = array("H")
            for part in pool.imap(partial(encode, ids), kind, chunksize=32):
                tokens.frombytes(part)
            parts.append(tokens)
    digest = hashlib.sha256(parts[0].tobytes() + parts[1].tobytes()).hexdigest()
    facts = {
        "source_bytes": sum(map(len, sources)),
        "source_tokens": len(parts[0]),
        "document_bytes": sum(map(len, documents)),
        "document_tokens": len(parts[1]),
        "tokens_sha256": digest[:16],
    }
    return Text(parts[0], parts[1], words, facts)
