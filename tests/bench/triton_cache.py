"""Hit latency of Triton's own disk cache, for cache_benchmark: reads entries as triton.compile does on a hit.

usage: triton_cache.py CACHE_DIR LOOKUPS SEED; prints the 50 % and 99 % quantiles in microseconds.
"""
import os
import random
import sys
import time

from triton.compiler.compiler import CompiledKernel
from triton.runtime.cache import FileCacheManager

root, lookups, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
keys = sorted(os.listdir(root))
chosen = random.Random(seed).choices(keys, k=lookups)


def load(key):
    group = FileCacheManager(key).get_group("k.json")
    return CompiledKernel(None, group, key)


for key in chosen[:100]:
    load(key)
micros = []
for key in chosen:
    start = time.perf_counter()
    kernel = load(key)
    micros.append((time.perf_counter() - start) * 1e6)
    assert kernel.kernel
micros.sort()
print(micros[len(micros) // 2], micros[int(0.99 * len(micros))])
