"""Read and write 16-bit wav files with one channel.

A wav file is a RIFF container, which consists of chunks. A chunk has a name, a size and a content.
The chunk ``fmt `` describes the samples, and the chunk ``data`` has the samples.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from study.tasks.formats import FormatError

RATE = 16_000
"""Samples per second of Speech Commands."""
FULL = 2**15
"""Value of full amplitude in 16-bit PCM."""

_PCM = 0x0001
_EXTENSIBLE = 0xFFFE
_SUBTYPE_TAIL = bytes.fromhex("000000001000800000aa00389b71")
"""Bytes after the format's number in the subtype of an extensible format."""
_UNKNOWN_SIZE = 0xFFFFFFFF


class _Format(NamedTuple):
    channels: int
    rate: int
    bits: int


def read_wav(content: bytes, name: str, rate: int = RATE) -> np.ndarray:
    """Return the samples of a wav file.

    Parameters
    ----------
    content : bytes
        The file. A streamed file, whose sizes were never filled in, is read to its end.
    name : str
        Name of the file, for error messages.
    rate : int
        The required number of samples per second.

    Returns
    -------
    numpy.ndarray
        Shape (n,), int16.

    Raises
    ------
    FormatError
        The file is truncated, or has another rate, number of channels or sample format.

    Examples
    --------
    >>> read_wav(wav_bytes(np.array([0, -1, 32767, -32768], np.int16)), "a.wav").tolist()
    [0, -1, 32767, -32768]
    """
    form = None
    for chunk, size, start in _chunks(content, name):
        if chunk == b"fmt ":
            form = _read_format(content[start : start + size], name)
        if chunk == b"data":
            if form is None:
                raise FormatError(f"{name} is not a wav file: its samples come before their format")
            if form != (1, rate, 16):
                raise FormatError(
                    f"{name}: expected 1 channel of 16 bits and {rate} samples per second, got "
                    f"{form.channels} of {form.bits} bits and {form.rate}"
                )
            return _samples(content, start, size, name)
    raise FormatError(f"{name} is not a wav file of 16-bit PCM: it has no samples")


def wav_bytes(samples: np.ndarray, rate: int = RATE) -> bytes:
    """Return the content of a wav file.

    Parameters
    ----------
    samples : numpy.ndarray
        Shape (n,), int16.
    rate : int
        Samples per second.

    Returns
    -------
    bytes
        One channel of 16-bit PCM.
    """
    data = samples.astype("<i2").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, _PCM, 1, rate, 2 * rate, 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def _chunks(content: bytes, name: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, the stated size and the start of the content of each chunk."""
    if len(content) < 12 or content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise FormatError(f"{name} is not a wav file of 16-bit PCM: it has no RIFF header")
    position = 12
    while position + 8 <= len(content):
        chunk, size = struct.unpack_from("<4sI", content, position)
        yield chunk, size, position + 8
        position += 8 + size + size % 2


def _read_format(content: bytes, name: str) -> _Format:
    """Return the format in the content of a chunk ``fmt``; refuse other formats than PCM."""
    if len(content) < 16:
        raise FormatError(f"{name} is not a wav file of 16-bit PCM: its format is incomplete")
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content)
    if code == _EXTENSIBLE and content[26:40] == _SUBTYPE_TAIL:
        (code,) = struct.unpack_from("<H", content, 24)
    if code != _PCM:
        raise FormatError(
            f"{name} is not a wav file of 16-bit PCM: its samples have format {code:#x}"
        )
    return _Format(channels, rate, bits)


def _samples(content: bytes, start: int, size: int, name: str) -> np.ndarray:
    """Return the 16-bit samples of a file, which begin at `start` and have the stated size."""
    available = len(content) - start
    (riff_size,) = struct.unpack_from("<I", content, 4)
    streamed = size == _UNKNOWN_SIZE or (size == 0 and riff_size in (0, _UNKNOWN_SIZE))
    if streamed:
        size = available - available % 2
    elif size == 0 and available:
        raise FormatError(
            f"{name}: its header says that there are no samples, but {available} bytes follow; "
            "write the header again, for example with sox"
        )
    if size > available or size % 2:
        raise FormatError(
            f"{name}: expected {size} bytes of samples, an even number, got {available} bytes"
        )
    samples = np.frombuffer(content, "<i2", count=size // 2, offset=start)
    return samples.astype(np.int16)
