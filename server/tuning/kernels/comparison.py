"""How far a candidate's result is from the reference, where both lie: sums that each program leaves for the host.

Elements `begin` to `end` of both; each program takes blocks in turn and leaves three sums of its elements: the squared
differences and the squared reference of what is finite in both, and how many elements are wrong on their own. The rules
are DescribeDifference's (server/tuning/result_check.cc). Nothing is specialised, so that each element type is compiled once.
"""
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["begin", "end", "tolerance", "root_mean_square"])
def compare_floats(want_ptr, got_ptr, sums_ptr, begin, end, tolerance, root_mean_square, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    error = tl.zeros([BLOCK], tl.float64)
    norm = tl.zeros([BLOCK], tl.float64)
    wrong = tl.zeros([BLOCK], tl.int32)
    for start in range(begin + tl.program_id(0) * BLOCK, end, tl.num_programs(0) * BLOCK):
        i = start + lanes
        inside = i < end
        a = tl.load(want_ptr + i, mask=inside, other=0.0).to(tl.float64)
        b = tl.load(got_ptr + i, mask=inside, other=0.0).to(tl.float64)
        # What is not finite differs from itself by NaN.
        finite = (a - a == 0.0) & (b - b == 0.0)
        same = (a == b) | ((a != a) & (b != b))
        difference = tl.where(finite, a - b, 0.0)
        error += difference * difference
        norm += tl.where(finite, a * a, 0.0)
        far = tl.abs(difference) > tolerance * (tl.abs(a) + root_mean_square)
        wrong += tl.where(finite, far, same == 0).to(tl.int32)
    sums = sums_ptr + tl.program_id(0) * 3
    tl.store(sums, tl.sum(error, axis=0))
    tl.store(sums + 1, tl.sum(norm, axis=0))
    tl.store(sums + 2, tl.sum(wrong, axis=0).to(tl.float64))


@triton.jit(do_not_specialize=["begin", "end"])
def compare_bits(want_ptr, got_ptr, sums_ptr, begin, end, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    wrong = tl.zeros([BLOCK], tl.int32)
    for start in range(begin + tl.program_id(0) * BLOCK, end, tl.num_programs(0) * BLOCK):
        i = start + lanes
        inside = i < end
        a = tl.load(want_ptr + i, mask=inside, other=0)
        b = tl.load(got_ptr + i, mask=inside, other=0)
        wrong += (a != b).to(tl.int32)
    sums = sums_ptr + tl.program_id(0) * 3
    tl.store(sums, 0.0)
    tl.store(sums + 1, 0.0)
    tl.store(sums + 2, tl.sum(wrong, axis=0).to(tl.float64))
