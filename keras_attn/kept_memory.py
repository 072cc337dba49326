"""Memory that a training process keeps from one step to the next."""

import ctypes
import sys

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Have the C library keep what this process frees, for what it allocates next.

    Every step of a training frees buffers and asks for them again: the scores of 2,400 tokens over
    10,000 subwords are 93 MB. By default glibc returns each buffer above 32 MB to the system,
    which then makes and clears its pages anew, at every step. Where that is slow, as in some
    virtual machines, it takes nearly as long as the arithmetic.

    The setting is the whole process': its memory stays as large as it was at its largest. Call it
    before TensorFlow computes anything, for it holds for the threads that are made after it.
    `keras-attn train` does.

    Returns:
        Whether it is so now: False where the C library is not glibc, and nothing has changed.

    Example:
        >>> from keras_attn.kept_memory import keep_freed_memory
        >>> is_kept = keep_freed_memory()
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        _MMAP_MAX: 0,  # no buffer is mapped for itself
        _TRIM_THRESHOLD: -1,  # nor the end of the heap ever given back
        _TOP_PAD: 64 * 2**20,
        _ARENA_MAX: 1,  # for the heaps of other threads cannot hold a large buffer
    }
    taken = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(taken)
