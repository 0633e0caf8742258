"""A stream that stays open; files and folders are tested with the data that they are made of."""

import errno
import io

import pytest

from cascade_srn.extraction.writers import Stream


def test_a_stream_has_everything_at_once():
    class Pipe(io.BytesIO):
        flushed = b""

        def flush(self):
            self.flushed = self.getvalue()

    target = Stream(Pipe())
    target.write(b"x")
    assert target.handle.flushed == b"x"
    target.commit()
    assert target.abandon() is None


def test_a_stream_that_is_full_is_named():
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device: 'standard output'"):
        Stream(Full()).write(b"x")
