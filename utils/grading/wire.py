"""Plain data between a student's kernel and the process that checks it.

Everything goes by value: None, bool, int, float, str, bytes, lists and tuples of any kind (all arrive as
lists), dicts with plain keys, numpy arrays and torch tensors. Anything else stays where it is, and
the other side gets a handle that names it. The bytes are msgpack, whose decoder evaluates nothing.
Length, depth and the number of items are bounded; tests/security/test_fuzz.py feeds it a million messages.
"""

import itertools
import math
import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import torch

MAX_BYTES = 32 * 2**20
MAX_DEPTH = 20
MAX_ITEMS = 2**20  # of all lists and dicts together: a byte of the message may become 64 in memory
MAX_KEYS = 2**12  # of a dict: chosen keys can meet each other, and then the time grows with the square
MAX_ROWS = 2**18  # of a tensor: a check that loops over them makes an object of each
MAX_LISTS = 2**20  # of a tensor as nested lists
MAX_DIMENSIONS = 16
TENSOR, ARRAY, HANDLE = 1, 2, 3  # msgpack extension types
DTYPES = {
    str(dtype)[6:]: dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
KEYS = (str, int, bool, float)
SCALARS = {type(None), bool, int, float, str, bytes}  # a list of these alone is looked at as a whole: it is faster
PLAIN = (type(None), bool, int, float, str, bytes, torch.Tensor, np.ndarray)


class WireError(ValueError):
    """What came through the wall is not what the wire allows."""


class TooLarge(WireError):
    """The message is longer than `MAX_BYTES`, or holds more than `MAX_ITEMS`."""


class _Counter:
    """Counts the items of a message and refuses one too many."""

    def __init__(self) -> None:
        self.items = 0

    def __call__(self, container: Any) -> Any:
        self.items += 1 + len(container)
        if self.items > MAX_ITEMS:
            raise TooLarge(f"lists and dicts of more than {MAX_ITEMS} items")
        return container


def dumps(value: Any, keep: Callable[[Any], int]) -> bytes:
    """Encode `value`; what is not plain data goes as the handle that `keep(value)` answers.

    Raises:
        TooLarge: the message would be longer than `MAX_BYTES`, or hold more than `MAX_ITEMS`.
        WireError: the value is nested deeper than `MAX_DEPTH`.
    """
    packed = msgpack.packb(_plain(value, keep, 0, _Counter()), use_bin_type=True)
    if len(packed) > MAX_BYTES:
        raise TooLarge(f"{len(packed) / 2**20:.0f} MB of data; at most {MAX_BYTES // 2**20} MB cross")
    return packed


def loads(data: bytes, meet: Callable[[int, str], Any]) -> Any:
    """Decode what `dumps` made; `meet(handle, type name)` answers with what stands for a handle.

    Raises:
        WireError: the bytes are not a message of this wire.
    """
    if type(data) is not bytes or len(data) > MAX_BYTES:
        raise TooLarge("the message is too large")
    counter = _Counter()
    met: list[Any] = []

    def extension(code: int, body: bytes) -> Any:
        counter(())
        if code == HANDLE:
            match _unpack(body, counter):
                case [int(handle), str(name)] if type(handle) is int and handle >= 0:
                    met.append(meet(handle, name[:100]))
                    return met[-1]
        if code in (TENSOR, ARRAY):
            match _unpack(body, counter):
                case [str(dtype), list(shape), bytes(raw)] if dtype in DTYPES:
                    tensor = _tensor(raw, DTYPES[dtype], shape)
                    return tensor if code == TENSOR else tensor.numpy()
        raise WireError("unknown extension")

    try:
        value = _unpack(data, counter, extension)
        _refuse_strange(value, 0, {id(one) for one in met})
    except WireError:
        raise
    except (ValueError, TypeError, RuntimeError, MemoryError, msgpack.UnpackException) as bad:
        raise WireError(f"not plain data: {type(bad).__name__}") from None
    return value


def _unpack(data: bytes, counter: _Counter, extension: Callable[[int, bytes], Any] = msgpack.ExtType) -> Any:
    """msgpack's decoder within our limits: it refuses a long list before it makes room for one."""
    return msgpack.unpackb(
        data,
        raw=False,
        strict_map_key=False,
        ext_hook=extension,
        list_hook=counter,
        object_hook=counter,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_KEYS,
    )


def _plain(value: Any, keep: Callable[[Any], int], depth: int, counter: _Counter) -> Any:
    """Replace tensors, arrays and handles by extension values; exact types, and tuples: other subclasses may lie."""
    if depth > MAX_DEPTH:
        raise WireError(f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is int:
        return value if -(2**63) <= value < 2**64 else float(value) if abs(value) < 2**1000 else math.inf
    if kind in SCALARS:
        return value
    if issubclass(kind, tuple):  # torch.Size, or a tuple whose places have names: its items, whatever its class says
        value = tuple.__getitem__(value, slice(None))
    if kind is list or issubclass(kind, tuple):
        counter(value)
        kinds = {*map(type, value)}
        in_range = kinds == {int} and min(value) >= -(2**63) and max(value) < 2**64
        if depth < MAX_DEPTH and (in_range or kinds <= SCALARS - {int}):
            return value
        return [_plain(item, keep, depth + 1, counter) for item in value]
    if kind in (dict, OrderedDict) and all(type(key) in KEYS for key in value):
        return {key: _plain(item, keep, depth + 1, counter) for key, item in counter(value).items()}
    if kind in (torch.Tensor, torch.nn.Parameter) and value.dtype in NAMES and not value.is_sparse:
        return msgpack.ExtType(TENSOR, _tensor_body(value))
    if kind is np.ndarray and str(value.dtype) in DTYPES:
        return msgpack.ExtType(ARRAY, _tensor_body(torch.from_numpy(value.copy())))
    if isinstance(value, np.generic) and kind.__module__ == "numpy" and str(value.dtype) in DTYPES:
        return value.item()
    sparse = f"{str(value.layout)[6:]} " if isinstance(value, torch.Tensor) and value.layout != torch.strided else ""
    return msgpack.ExtType(HANDLE, msgpack.packb([keep(value), f"{sparse}{kind.__name__}"]))


def _tensor_body(tensor: torch.Tensor) -> bytes:
    if tensor.numel() * tensor.element_size() > MAX_BYTES:
        raise TooLarge(f"a tensor of shape {tuple(tensor.shape)}; at most {MAX_BYTES // 2**20} MB cross")
    return msgpack.packb([NAMES[tensor.dtype], list(tensor.shape), raw(tensor)])


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor's numbers, row by row, whatever its strides."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    return (plain.view(torch.int16) if plain.dtype is torch.bfloat16 else plain).numpy().tobytes()


def _tensor(raw: bytes, dtype: torch.dtype, shape: list) -> torch.Tensor:
    sizes_ok = all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape)
    if not sizes_ok or len(shape) > MAX_DIMENSIONS or len(raw) != math.prod(shape) * dtype.itemsize:
        raise WireError("a tensor whose size and shape disagree")
    if shape and shape[0] > MAX_ROWS:
        raise WireError(f"a tensor of more than {MAX_ROWS} rows")
    if sum(itertools.accumulate(shape[:-1], operator.mul)) > MAX_LISTS:
        raise WireError(f"a tensor that is more than {MAX_LISTS} lists")
    if not raw:
        if math.prod(filter(None, shape)) > MAX_ITEMS:  # as lists, an empty tensor has its other sizes all the same
            raise WireError("an empty tensor of too many rows")
        return torch.empty(shape, dtype=dtype)
    values = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
    if dtype is torch.bool:  # any other byte in a bool tensor is undefined behaviour
        return (values != 0).reshape(shape)
    return values.view(dtype).reshape(shape)


def _refuse_strange(value: Any, depth: int, met: set[int]) -> None:
    """Refuse what is nested too deep, and what msgpack knows and this wire does not (time stamps, keys of any kind)."""
    if depth > MAX_DEPTH:
        raise WireError(f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is list:
        if depth < MAX_DEPTH and SCALARS.issuperset(map(type, value)):
            return
        for item in value:
            _refuse_strange(item, depth + 1, met)
    elif kind is dict:
        for key, item in value.items():
            if type(key) not in KEYS:
                raise WireError(f"a key of type {type(key).__name__}")
            _refuse_strange(item, depth + 1, met)
    elif kind not in PLAIN and id(value) not in met:
        raise WireError(f"an object of type {kind.__name__}")
