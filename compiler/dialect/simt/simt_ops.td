// The simt dialect: operations.
//
// A kernel is one func.func with the attributes "simt.kernel" (unit), "simt.threads" (i32: threads of a block) and, once
// shared memory is allocated, "simt.shared_bytes" (i32). Its arguments are scalars: integers, floats, addresses as i64.
// Every value is a scalar or a short vector (at most 16 bytes) that belongs to one thread. Beside its own operations the
// dialect is used with arith, math, scf, vector (from_elements, insert, extract, bitcast of those short vectors) and with operations of
// the tile dialect on scalars: program_id, num_programs, fp_to_fp, fp_to_int, divs, divu, rems, remu, mulhiu, extern,
// inline_asm.
//
// Control flow is uniform: all threads of a block take the same way through scf, because its conditions and bounds come
// from scalars of tile IR. Differences between threads are expressed by predicates of operations. The one exception are
// scf operations marked "simt.divergent" (from tile.map bodies), which hold no barrier, no shuffle and no matrix operation.
#ifndef TESSERA_SIMT_OPS_TD
#define TESSERA_SIMT_OPS_TD

include "compiler/dialect/simt/simt_dialect.td"
include "compiler/dialect/tile/tile_dialect.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Simt_Op<string m, list<Trait> traits = []> : Op<Simt_Dialect, m, traits>;

def Simt_Scalar : AnyTypeOf<[AnySignlessInteger, AnyFloat]>;
def Simt_Value : AnyTypeOf<[AnySignlessInteger, AnyFloat, VectorOfRank<[1]>]>;

//===-- identity ------------------------------------------------------------------------------===//

def Simt_ThreadIdOp : Simt_Op<"thread_id", [Pure]> {
  let summary = "index of the thread in its block, 0 to simt.threads - 1";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Simt_LaneIdOp : Simt_Op<"lane_id", [Pure]> {
  let summary = "thread_id mod 32";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Simt_WarpIdOp : Simt_Op<"warp_id", [Pure]> {
  let summary = "thread_id / 32; the same for all lanes of a warp, and known to be so by the hardware";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===-- global memory -------------------------------------------------------------------------===//

def Simt_LoadOp : Simt_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "reads a scalar or a short vector at a global address (i64) where the predicate holds";
  let description = [{
    Where it does not hold nothing is read and the result is `other`, or 0. The address is aligned to the whole value.
  }];
  let arguments = (ins I64:$address, Optional<I1>:$predicate, Optional<Simt_Value>:$other,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict,
                       UnitAttr:$is_volatile);
  let results = (outs Simt_Value:$result);
  let assemblyFormat = "$address (`if` $predicate^)? (`else` $other^ `:` type($other))? attr-dict `:` type($result)";
}
def Simt_StoreOp : Simt_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a scalar or a short vector at a global address where the predicate holds";
  let arguments = (ins I64:$address, Simt_Value:$value, Optional<I1>:$predicate,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict);
  let assemblyFormat = "$address `,` $value (`if` $predicate^)? attr-dict `:` type($value)";
}
def Simt_AtomicRmwOp : Simt_Op<"atomic_rmw", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["value", "result"]>]> {
  let summary = "atomic read-modify-write in global memory; the old value, or 0 where the predicate does not hold";
  let description = "Kinds and types that the hardware lacks become loops of compare-and-swap in the backend.";
  let arguments = (ins Tile_RmwKindAttr:$kind, I64:$address, Simt_Value:$value, Optional<I1>:$predicate,
                       Tile_MemSemAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Simt_Value:$result);
  let assemblyFormat = "$kind `,` $sem `,` $scope `,` $address `,` $value (`if` $predicate^)? attr-dict `:` type($value)";
}
def Simt_AtomicCasOp : Simt_Op<"atomic_cas", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["compare", "value", "result"]>]> {
  let summary = "atomic compare-and-swap in global memory; the old value";
  let arguments = (ins I64:$address, Simt_Scalar:$compare, Simt_Scalar:$value, Optional<I1>:$predicate,
                       Tile_MemSemAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Simt_Scalar:$result);
  let assemblyFormat = "$sem `,` $scope `,` $address `,` $compare `,` $value (`if` $predicate^)? attr-dict `:` type($value)";
}
def Simt_FenceOp : Simt_Op<"fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "orders this thread's global accesses at a scope";
  let arguments = (ins Tile_MemScopeAttr:$scope);
  let assemblyFormat = "$scope attr-dict";
}

//===-- shared memory -------------------------------------------------------------------------===//

def Simt_AllocSharedOp : Simt_Op<"alloc_shared", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a buffer of shared memory, alive until simt.free_shared in the same block of IR";
  let description = "`offset` is set by allocate_shared. The content is undefined at first.";
  let arguments = (ins I32Attr:$bytes, I32Attr:$alignment, OptionalAttr<I32Attr>:$offset);
  let results = (outs Simt_Buffer:$result);
  let assemblyFormat = "$bytes `align` $alignment attr-dict";
  let builders = [OpBuilder<(ins "int32_t":$bytes, "int32_t":$alignment), [{
    build($_builder, $_state, BufferType::get($_builder.getContext()), $_builder.getI32IntegerAttr(bytes),
          $_builder.getI32IntegerAttr(alignment), ::mlir::IntegerAttr());
  }]>];
}
def Simt_FreeSharedOp : Simt_Op<"free_shared", [MemoryEffects<[MemFree]>]> {
  let summary = "the last use of a buffer; later allocations may take its place";
  let arguments = (ins Simt_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict";
}
def Simt_LoadSharedOp : Simt_Op<"load_shared", [MemoryEffects<[MemRead]>]> {
  let summary = "reads a scalar or a short vector at a byte offset of a buffer";
  let arguments = (ins Simt_Buffer:$buffer, I32:$offset, Optional<I1>:$predicate);
  let results = (outs Simt_Value:$result);
  let assemblyFormat = "$buffer `[` $offset `]` (`if` $predicate^)? attr-dict `:` type($result)";
}
def Simt_StoreSharedOp : Simt_Op<"store_shared", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a scalar or a short vector at a byte offset of a buffer where the predicate holds";
  let arguments = (ins Simt_Buffer:$buffer, I32:$offset, Simt_Value:$value, Optional<I1>:$predicate);
  let assemblyFormat = "$buffer `[` $offset `]` `,` $value (`if` $predicate^)? attr-dict `:` type($value)";
}
def Simt_AtomicSharedOp : Simt_Op<"atomic_shared", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "atomic read-modify-write of a 32-bit integer in shared memory, relaxed";
  let arguments = (ins Tile_RmwKindAttr:$kind, Simt_Buffer:$buffer, I32:$offset, I32:$value, Optional<I1>:$predicate);
  let assemblyFormat = "$kind `,` $buffer `[` $offset `]` `,` $value (`if` $predicate^)? attr-dict";
}
def Simt_BarrierOp : Simt_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all threads of the block arrive; earlier accesses of each, shared and global, are visible to all after it";
  let assemblyFormat = "attr-dict";
}
def Simt_WarpBarrierOp : Simt_Op<"warp_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "as simt.barrier among the lanes of each warp";
  let assemblyFormat = "attr-dict";
}

//===-- asynchronous copies (cp.async, sm_80) ---------------------------------------------------===//

def Simt_CopyAsyncOp : Simt_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "copies 4, 8 or 16 bytes from global to shared memory; zeros where the predicate does not hold";
  let description = "Visible to the issuing thread after simt.wait_copies, to the block after a barrier behind that.";
  let arguments = (ins Simt_Buffer:$buffer, I32:$offset, I64:$address, Optional<I1>:$predicate, I32Attr:$bytes,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict);
  let assemblyFormat = "$buffer `[` $offset `]` `,` $address `bytes` $bytes (`if` $predicate^)? attr-dict";
}
def Simt_CommitCopiesOp : Simt_Op<"commit_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends a group of this thread's copies";
  let assemblyFormat = "attr-dict";
}
def Simt_WaitCopiesOp : Simt_Op<"wait_copies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of this thread's latest groups are unfinished";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

//===-- warps -----------------------------------------------------------------------------------===//

def Simt_ShuffleOp : Simt_Op<"shuffle", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "the value of another lane of the warp, of any scalar type; all lanes take part";
  let description = "`lane`: the mask (xor), the lane (index) or the distance (up, down; out of the warp: the own value).";
  let arguments = (ins Simt_ShuffleKindAttr:$kind, Simt_Scalar:$value, I32:$lane);
  let results = (outs Simt_Scalar:$result);
  let assemblyFormat = "$kind `,` $value `,` $lane attr-dict `:` type($value)";
}
def Simt_BallotOp : Simt_Op<"ballot", [Pure]> {
  let summary = "a bit for each lane of the warp whose condition holds";
  let arguments = (ins I1:$condition);
  let results = (outs I32:$result);
  let assemblyFormat = "$condition attr-dict";
}

//===-- matrix units ----------------------------------------------------------------------------===//

def Simt_LdmatrixOp : Simt_Op<"ldmatrix", [MemoryEffects<[MemRead]>]> {
  let summary = "1, 2 or 4 matrices of 8 x 16 bytes to the fragments of mma (PTX ldmatrix .m8n8 .b16)";
  let description = "Lane 8 i + r gives the 16-byte aligned byte offset of row r of matrix i.";
  let arguments = (ins Simt_Buffer:$buffer, I32:$offset, UnitAttr:$transpose);
  let results = (outs Variadic<I32>:$result);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($result)";
}
def Simt_StmatrixOp : Simt_Op<"stmatrix", [MemoryEffects<[MemWrite]>]> {
  let summary = "the inverse of simt.ldmatrix (sm_90)";
  let arguments = (ins Simt_Buffer:$buffer, I32:$offset, Variadic<I32>:$values, UnitAttr:$transpose);
  let assemblyFormat = "$buffer `[` $offset `]` `,` $values attr-dict `:` type($values)";
}
def Simt_MmaOp : Simt_Op<"mma", [Pure, AttrSizedOperandSegments]> {
  let summary = "a matrix product of a warp, a x b + c (PTX mma.sync .row.col)";
  let description = [{
    m x n x k as PTX names the shape. `a` and `b` are the fragments' registers as i32 (f64 as f64), `c` and the results the
    accumulator's: f32, i32, f64, or f16 pairs as i32.
  }];
  let arguments = (ins Variadic<AnyType>:$a, Variadic<AnyType>:$b, Variadic<AnyType>:$c, I32Attr:$m, I32Attr:$n, I32Attr:$k,
                       Simt_MatrixTypeAttr:$a_type, Simt_MatrixTypeAttr:$b_type);
  let results = (outs Variadic<AnyType>:$result);
  let assemblyFormat = [{
    $m `x` $n `x` $k `,` $a_type `(` $a `)` `,` $b_type `(` $b `)` `,` `(` $c `)` attr-dict `:` type($a) `*` type($b) `+` type($c) `->` type($result)
  }];
}
def Simt_WgmmaOp : Simt_Op<"wgmma", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "an asynchronous matrix product of a warp group, a x b + c (PTX wgmma.mma_async, sm_90a)";
  let description = [{
    64 x n x k. `a` is a matrix in shared memory (a_buffer, a_offset) or the registers of its fragment (a_registers, i32);
    `b` lies in shared memory. Offsets are in bytes, the same for all threads of the warp group. `*_transpose`: the matrix is
    M-major (a) or N-major (b) instead of K-major. Leading and stride byte offsets are those of the PTX matrix descriptor.
    The results may be used only behind simt.wgmma_wait; accumulators of one chain of wgmma are passed from result to `c`.
  }];
  let arguments = (ins Optional<Simt_Buffer>:$a_buffer, Optional<I32>:$a_offset, Variadic<I32>:$a_registers,
                       Simt_Buffer:$b_buffer, I32:$b_offset, Variadic<AnyType>:$c, I32Attr:$n, I32Attr:$k,
                       Simt_MatrixTypeAttr:$a_type, Simt_MatrixTypeAttr:$b_type, UnitAttr:$a_transpose, UnitAttr:$b_transpose,
                       Simt_SwizzleAttr:$a_swizzle, I32Attr:$a_leading_bytes, I32Attr:$a_stride_bytes,
                       Simt_SwizzleAttr:$b_swizzle, I32Attr:$b_leading_bytes, I32Attr:$b_stride_bytes);
  let results = (outs Variadic<AnyType>:$result);
}
def Simt_WgmmaFenceOp : Simt_Op<"wgmma_fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "orders the warp group's registers and its generic shared-memory writes before the wgmma that follow";
  let description = "wgmma.fence.sync.aligned; with `proxy` also fence.proxy.async of shared memory before it.";
  let arguments = (ins UnitAttr:$proxy);
  let assemblyFormat = "attr-dict";
}
def Simt_WgmmaCommitOp : Simt_Op<"wgmma_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends a group of wgmma";
  let assemblyFormat = "attr-dict";
}
def Simt_WgmmaWaitOp : Simt_Op<"wgmma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` groups are unfinished; passes accumulators through, so that uses stay behind it";
  let arguments = (ins I32Attr:$pending, Variadic<AnyType>:$values);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$pending (`,` $values^ `:` type($values))? attr-dict (`->` type($results)^)?";
}

//===-- reports to the host -----------------------------------------------------------------------===//

def Simt_ReportOp : Simt_Op<"report", [MemoryEffects<[MemWrite]>]> {
  let summary = "where the condition holds, tells the launch's report what went wrong; the thread goes on";
  let description = [{
    Device asserts, and accesses outside the bound buffers in guarded variants. The first report of a launch wins. The launch
    then fails with the message; `address` (0: none) and the program's index are part of it.
  }];
  let arguments = (ins I1:$condition, I64:$address, Simt_FailureKindAttr:$kind, StrAttr:$message);
  let assemblyFormat = "$kind `,` $message `,` $address `if` $condition attr-dict";
}
def Simt_PrintOp : Simt_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "tl.device_print of one value of an operand, where the predicate holds";
  let arguments = (ins StrAttr:$prefix, Simt_Scalar:$value, I32:$element, I32Attr:$elements, I32Attr:$operand,
                       Optional<I1>:$predicate, UnitAttr:$hex, UnitAttr:$is_unsigned);
  let assemblyFormat = "$prefix `,` $value `[` $element `of` $elements `]` `operand` $operand (`if` $predicate^)? attr-dict `:` type($value)";
}

#endif
