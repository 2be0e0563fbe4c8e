"""Compositions and jobs as clients send them: a text, or a form with the text and the code of its jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flask import request
from werkzeug.datastructures import FileStorage
from werkzeug.exceptions import UnsupportedMediaType

from speck.errors import Fault, InvalidInput
from speck.schema.code import SentFile
from speck.store.jobfile import BadFile
from speck.store.uploads import Uploads

JSON = "application/json"
FORM = "multipart/form-data"
BY_HASH = "sha256:"
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


@dataclass(frozen=True)
class Submission:
    """A document's text, its ``format`` (``yaml`` or ``json``), and the code that was sent, by path."""

    text: bytes
    format: str
    sent: Mapping[str, SentFile] = field(default_factory=dict)


def submission(document: str, uploads: Uploads) -> Submission:
    """The request's body; of a form, the part named ``document`` is the text, each other a job's code.

    Such a part is named as ``job_path`` in the text, and is a file or ``sha256:HASH`` of one that is here
    already.  Raises :class:`~speck.errors.InvalidInput`.
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise UnsupportedMediaType(f"content encoding {encoding!r} is not supported (expected none)")
    mimetype = request.mimetype or _YAML[0]
    if mimetype == FORM:
        return _of_form(document, uploads)
    if mimetype == JSON:
        return Submission(request.get_data(), "json")
    if mimetype in _YAML:
        return Submission(request.get_data(), "yaml")
    message = f"content type {mimetype!r} is not supported (expected {JSON}, {_YAML[0]} or {FORM})"
    raise UnsupportedMediaType(message)


def _of_form(document: str, uploads: Uploads) -> Submission:
    parts: dict[str, str | FileStorage] = dict(request.form.items()) | dict(request.files.items())
    text = parts.pop(document, None)
    if text is None:
        raise InvalidInput([Fault(f"the form has no part {document!r} (expected its text)")], "form")
    as_json = isinstance(text, FileStorage) and text.mimetype == JSON
    content = text.read() if isinstance(text, FileStorage) else text.encode()
    faults: list[Fault] = []
    sent = {path: _sent(path, part, uploads, faults) for path, part in parts.items()}
    if faults:
        raise InvalidInput(faults, "form")
    return Submission(content, "json" if as_json else "yaml", sent)


def _sent(path: str, part: str | FileStorage, uploads: Uploads, faults: list[Fault]) -> SentFile:
    """A part of a form as a job's file; its fault is added to ``faults``."""
    try:
        if isinstance(part, FileStorage):
            sha256 = hashlib.file_digest(part.stream, "sha256").hexdigest()  # type: ignore[arg-type]
            there, _ = uploads.received(sha256)
            part.stream.seek(there)  # an earlier request may have sent a part of it
            uploads.receive(sha256, part.stream, offset=there)  # type: ignore[arg-type]
        elif part.startswith(BY_HASH):
            sha256 = part.removeprefix(BY_HASH)
        else:
            raise BadFile(f"is sent as {part[:80]!r} (expected a file, or {BY_HASH}HASH)")
        return SentFile(uploads.find(sha256, Path(path).name), sha256)
    except BadFile as error:
        faults.append(Fault(f"job_path {path!r} {error}", field="job_path", value=path))
        return SentFile(Path(), "")
