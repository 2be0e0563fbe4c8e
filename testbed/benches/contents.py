"""Contents of messages of which some are no text."""

# Two texts, one of them empty; NUL with 0xFF; a sequence that is cut off; a half of a surrogate pair.
TEXTS = (b"ok", b"")
OTHERS = (b"\x00\xff", b"O\xe2\x82", b"\xed\xa0\x80")
CONTENTS = TEXTS + OTHERS
