// The tile dialect: operations.
//
// Values are scalars (i1..i64, f16, bf16, f32, f64, fp8, !tile.ptr) or ranked tensors of them with
// static shapes whose dimensions are powers of two. Integers are signless; ops carry the signedness.
// Elementwise operations of the upstream `arith` and `math` dialects are used as they are on both.
// Arithmetic on f16/bf16/fp8 rounds after each operation.
#ifndef TESSERA_TILE_OPS_TD
#define TESSERA_TILE_OPS_TD

include "compiler/dialect/tile/tile_dialect.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string m, list<Trait> traits = []> : Op<Tile_Dialect, m, traits>;

def Tile_AnyPtr : AnyTypeOf<[Tile_Ptr, TensorOf<[Tile_Ptr]>]>;
def Tile_AnyInt : AnyTypeOf<[AnySignlessInteger, TensorOf<[AnySignlessInteger]>]>;
def Tile_AnyFloat : AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>;
def Tile_AnyMask : AnyTypeOf<[I1, TensorOf<[I1]>]>;
def Tile_Element : AnyTypeOf<[AnySignlessInteger, AnyFloat, Tile_Ptr]>;
def Tile_Tensor : RankedTensorOf<[AnySignlessInteger, AnyFloat, Tile_Ptr]>;
def Tile_Any : AnyTypeOf<[AnySignlessInteger, AnyFloat, Tile_Ptr, Tile_Tensor]>;

//===-- program identity ----------------------------------------------------------------------===//

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "index of this program instance along a grid axis (0 to 2)";
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}
def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "extent of the grid along an axis (0 to 2)";
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<0>, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

//===-- shape ---------------------------------------------------------------------------------===//

def Tile_RangeOp : Tile_Op<"range", [Pure]> {
  let summary = "[start, start+1, ..., end-1] as a 1-D tensor of i32";
  let arguments = (ins I32Attr:$start, I32Attr:$end);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "a tensor all of whose elements are one scalar";
  let arguments = (ins Tile_Element:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_UnsplatOp : Tile_Op<"unsplat", [Pure]> {
  let summary = "the only element of a tensor of one element, as a scalar";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Element:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "inserts a dimension of extent 1 at `axis`";
  let arguments = (ins Tile_Tensor:$source, I32Attr:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeats along dimensions of extent 1; ranks are equal";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "same elements in row-major order under another shape";
  let description = "With `allow_reorder` the order of elements may be any (tl.view, can_reorder).";
  let arguments = (ins Tile_Tensor:$source, UnitAttr:$allow_reorder);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_TransOp : Tile_Op<"trans", [Pure]> {
  let summary = "permutes dimensions: result dimension i is source dimension order[i]";
  let arguments = (ins Tile_Tensor:$source, DenseI32ArrayAttr:$order);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_JoinOp : Tile_Op<"join", [Pure, SameTypeOperands]> {
  let summary = "joins two tensors along a new, last dimension of extent 2";
  let arguments = (ins Tile_Tensor:$lhs, Tile_Tensor:$rhs);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_SplitOp : Tile_Op<"split", [Pure]> {
  let summary = "splits the last dimension, of extent 2, into two tensors";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$lhs, Tile_Tensor:$rhs);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($lhs) `,` type($rhs)";
  let hasVerifier = 1;
}
def Tile_CatOp : Tile_Op<"cat", [Pure, SameTypeOperands]> {
  let summary = "concatenates two 1-D tensors; the order of elements is kept";
  let arguments = (ins Tile_Tensor:$lhs, Tile_Tensor:$rhs);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

//===-- pointers and memory -------------------------------------------------------------------===//

def Tile_AddPtrOp : Tile_Op<"addptr", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "pointer plus a signed number of elements, lane by lane";
  let description = "The offset (i8 to i64) is sign-extended to 64 bits; elements of i1 take one byte.";
  let arguments = (ins Tile_AnyPtr:$ptr, Tile_AnyInt:$offset);
  let results = (outs Tile_AnyPtr:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($ptr) `,` type($offset)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_PtrCastOp : Tile_Op<"ptr_cast", [Pure]> {
  let summary = "the same address as a pointer to another type";
  let arguments = (ins Tile_AnyPtr:$source);
  let results = (outs Tile_AnyPtr:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_PtrToIntOp : Tile_Op<"ptr_to_int", [Pure]> {
  let summary = "the address as i64";
  let arguments = (ins Tile_AnyPtr:$source);
  let results = (outs Tile_AnyInt:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_IntToPtrOp : Tile_Op<"int_to_ptr", [Pure]> {
  let summary = "an i64 address as a pointer";
  let arguments = (ins Tile_AnyInt:$source);
  let results = (outs Tile_AnyPtr:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads one element through each pointer whose mask lane is set";
  let description = [{
    Masked-off lanes are not accessed and yield `other`, or 0 where there is none. Pointees are never i1: the
    frontend loads a pointer to bool as i8.
  }];
  let arguments = (ins Tile_AnyPtr:$ptr, Optional<Tile_AnyMask>:$mask, Optional<Tile_Any>:$other,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict,
                       UnitAttr:$is_volatile);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^ `:` type($mask))? (`other` $other^ `:` type($other))? attr-dict `:` type($ptr) `->` type($result)
  }];
  let hasVerifier = 1;
}
def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes one element through each pointer whose mask lane is set";
  let arguments = (ins Tile_AnyPtr:$ptr, Tile_Any:$value, Optional<Tile_AnyMask>:$mask,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict);
  let assemblyFormat = "$ptr `,` $value (`mask` $mask^ `:` type($mask))? attr-dict `:` type($ptr) `,` type($value)";
  let hasVerifier = 1;
}
def Tile_AtomicRmwOp : Tile_Op<"atomic_rmw", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "atomic read-modify-write; yields the old value, lane by lane (0 where masked off)";
  let arguments = (ins Tile_RmwKindAttr:$kind, Tile_AnyPtr:$ptr, Tile_Any:$value, Optional<Tile_AnyMask>:$mask,
                       Tile_MemSemAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $kind `,` $sem `,` $scope `,` $ptr `,` $value (`mask` $mask^ `:` type($mask))? attr-dict `:` type($ptr) `,` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}
def Tile_AtomicCasOp : Tile_Op<"atomic_cas", [AllTypesMatch<["compare", "value", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "atomic compare-and-swap; yields the old value";
  let arguments = (ins Tile_AnyPtr:$ptr, Tile_Any:$compare, Tile_Any:$value, Tile_MemSemAttr:$sem, Tile_MemScopeAttr:$scope);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = "$sem `,` $scope `,` $ptr `,` $compare `,` $value attr-dict `:` type($ptr) `,` type($value)";
  let hasVerifier = 1;
}
def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes earlier stores of this program visible to its later loads";
  let assemblyFormat = "attr-dict";
}

//===-- tensor descriptors --------------------------------------------------------------------===//

def Tile_MakeDescOp : Tile_Op<"make_desc", [Pure, SameVariadicOperandSize]> {
  let summary = "describes a strided tensor (shape i32, strides i64, in elements) read and written in blocks";
  let arguments = (ins Tile_Ptr:$base, Variadic<I32>:$shape, Variadic<I64>:$strides, DefaultValuedAttr<BoolAttr, "false">:$nan_padding);
  let results = (outs Tile_Desc:$result);
  let assemblyFormat = "$base `,` `[` $shape `]` `,` `[` $strides `]` attr-dict `:` type($base) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_DescLoadOp : Tile_Op<"desc_load", [MemoryEffects<[MemRead]>]> {
  let summary = "reads the block at `indices`; elements outside the tensor are the descriptor's padding";
  let arguments = (ins Tile_Desc:$desc, Variadic<I32>:$indices);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$desc `[` $indices `]` attr-dict `:` type($desc) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_DescStoreOp : Tile_Op<"desc_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes the block at `indices`; elements outside the tensor are dropped";
  let arguments = (ins Tile_Desc:$desc, Variadic<I32>:$indices, Tile_Tensor:$value, OptionalAttr<Tile_RmwKindAttr>:$reduce);
  let assemblyFormat = "$desc `[` $indices `]` `,` $value (`reduce` $reduce^)? attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

//===-- conversion ----------------------------------------------------------------------------===//

def Tile_FpToFpOp : Tile_Op<"fp_to_fp", [Pure]> {
  let summary = "float to float, in either direction; to fp8 saturates to the largest finite value";
  let arguments = (ins Tile_AnyFloat:$source, DefaultValuedAttr<Tile_RoundingAttr, "::tessera::tile::Rounding::RTNE">:$rounding);
  let results = (outs Tile_AnyFloat:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Tile_FpToIntOp : Tile_Op<"fp_to_int", [Pure]> {
  let summary = "float to integer: truncates, saturates at the target's range, NaN gives 0";
  let arguments = (ins Tile_AnyFloat:$source, UnitAttr:$is_unsigned);
  let results = (outs Tile_AnyInt:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

//===-- integer arithmetic that never traps -----------------------------------------------------===//

class Tile_IntDivOp<string m, string s> : Tile_Op<m, [Pure, SameOperandsAndResultType]> {
  let summary = s;
  let description = "By zero, or INT_MIN by -1: an unspecified value, never a trap.";
  let arguments = (ins Tile_AnyInt:$lhs, Tile_AnyInt:$rhs);
  let results = (outs Tile_AnyInt:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;  // by one, and of constants where the quotient is specified
}
def Tile_DivSOp : Tile_IntDivOp<"divs", "signed quotient, truncated toward zero">;
def Tile_DivUOp : Tile_IntDivOp<"divu", "unsigned quotient">;
def Tile_RemSOp : Tile_IntDivOp<"rems", "signed remainder, with the sign of the dividend">;
def Tile_RemUOp : Tile_IntDivOp<"remu", "unsigned remainder">;
def Tile_MulHiUOp : Tile_Op<"mulhiu", [Pure, SameOperandsAndResultType]> {
  let summary = "high half of the unsigned product";
  let arguments = (ins Tile_AnyInt:$lhs, Tile_AnyInt:$rhs);
  let results = (outs Tile_AnyInt:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

//===-- matrix products, reductions, scans ------------------------------------------------------===//

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["c", "result"]>]> {
  let summary = "a @ b + c over the last two dimensions, [.., M, K] x [.., K, N] + [.., M, N]";
  let description = [{
    Products of operands below 32 bits are exact; sums are in the accumulator's type. fp32 operands use `precision`;
    tf32 drops the low 13 mantissa bits of each operand. i8 operands are signed and accumulate in i32.
  }];
  let arguments = (ins Tile_Tensor:$a, Tile_Tensor:$b, Tile_Tensor:$c, Tile_PrecisionAttr:$precision,
                       DefaultValuedAttr<I32Attr, "0">:$max_num_imprecise_acc);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$a `,` $b `,` $c `,` $precision attr-dict `:` type($a) `*` type($b) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_ReduceOp : Tile_Op<"reduce", [Pure, SingleBlock, SameVariadicOperandSize]> {
  let summary = "reduces N tensors of one shape together along `axis` with a combine region";
  let description = [{
    The region takes 2N scalars (left values, then right values, of the element types) and yields N with `tile.yield`.
    The order of combination is unspecified unless `ordered`. Reducing a 1-D tensor yields scalars.
    ```
    %s = tile.reduce(%x) axis 0 : (tensor<128xf32>) -> f32 {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      tile.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$sources, I32Attr:$axis, UnitAttr:$ordered);
  let results = (outs Variadic<Tile_Any>:$result);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = "`(` $sources `)` `axis` $axis attr-dict `:` functional-type($sources, $result) $combine";
  let hasVerifier = 1;
}
def Tile_ScanOp : Tile_Op<"scan", [Pure, SingleBlock, SameVariadicOperandSize]> {
  let summary = "inclusive scan of N tensors together along `axis`; order is kept, also in reverse";
  let description = [{
    The region is as in tile.reduce; its first N arguments are the accumulated prefix. In reverse the prefix runs from
    the last element to the first.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$sources, I32Attr:$axis, UnitAttr:$reverse);
  let results = (outs Variadic<Tile_Tensor>:$result);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = "`(` $sources `)` `axis` $axis attr-dict `:` functional-type($sources, $result) $combine";
  let hasVerifier = 1;
}
def Tile_MapOp : Tile_Op<"map", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "applies a scalar region to each lane of N tensors of one shape (tl.map_elementwise)";
  let arguments = (ins Variadic<Tile_Tensor>:$sources);
  let results = (outs Variadic<Tile_Tensor>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $sources `)` attr-dict `:` functional-type($sources, $result) $body";
  let hasVerifier = 1;
}
def Tile_YieldOp : Tile_Op<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["ReduceOp", "ScanOp", "MapOp"]>]> {
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "$operands attr-dict `:` type($operands)";
}
def Tile_SortOp : Tile_Op<"sort", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "sorts along the last dimension; NaN compares as in a network of min and max";
  let arguments = (ins Tile_Tensor:$source, UnitAttr:$descending, UnitAttr:$is_unsigned);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}
def Tile_GatherOp : Tile_Op<"gather", [Pure]> {
  let summary = "result[.., i, ..] = source[.., index[.., i, ..], ..] along `axis`";
  let arguments = (ins Tile_Tensor:$source, Tile_Tensor:$index, I32Attr:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source `[` $index `]` attr-dict `:` type($source) `,` type($index) `->` type($result)";
  let hasVerifier = 1;
}
def Tile_HistogramOp : Tile_Op<"histogram", [Pure]> {
  let summary = "counts how often 0 .. bins-1 occur (mask: lanes that count)";
  let arguments = (ins Tile_Tensor:$source, Optional<Tile_AnyMask>:$mask);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source (`mask` $mask^ `:` type($mask))? attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

//===-- placement (nvptx) ------------------------------------------------------------------------===//

def Tile_ConvertLayoutOp : Tile_Op<"convert_layout", [Pure]> {
  let summary = "the same elements under another layout";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===-- blocks in shared memory ---------------------------------------------------------------------===//
//
// Made by store-in-slices in front of assign-layouts.

def Tile_SharedPutOp : Tile_Op<"shared_put", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "a block in shared memory, for tile.shared_slice to read until tile.shared_free in the same block of IR";
  let arguments = (ins Tile_Tensor:$value);
  let results = (outs Tile_Shared:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
}
def Tile_SharedSliceOp : Tile_Op<"shared_slice", [MemoryEffects<[MemRead]>]> {
  let summary = "the slice with number `index` of a block that tile.shared_put holds, along dimension 0";
  let arguments = (ins Tile_Shared:$buffer, I32:$index);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$buffer `[` $index `]` attr-dict `:` type($buffer) `->` type($result)";
}

//===-- operands of products in shared memory -----------------------------------------------------===//
//
// Made by stage-dot-operands behind assign-layouts. These buffers carry barriers of their own.

def Tile_SharedAllocOp : Tile_Op<"shared_alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "room for staged operands, alive until tile.shared_free in the same block of IR";
  let description = "`synchronized`: whoever made it placed the barriers between its accesses.";
  let arguments = (ins UnitAttr:$synchronized);
  let results = (outs Tile_Shared:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Tile_SharedFreeOp : Tile_Op<"shared_free", [MemoryEffects<[MemFree]>]> {
  let arguments = (ins Tile_Shared:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}
def Tile_SharedStoreOp : Tile_Op<"shared_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes a block to a stage";
  let arguments = (ins Tile_Shared:$buffer, I32:$stage, Tile_Tensor:$value);
  let assemblyFormat = "$buffer `[` $stage `]` `,` $value attr-dict `:` type($buffer) `,` type($value)";
}
def Tile_SharedCopyOp : Tile_Op<"shared_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "asynchronous copy of a block from global memory to a stage; masked-off elements become 0";
  let description = "Visible behind tile.shared_wait and a barrier.";
  let arguments = (ins Tile_Shared:$buffer, I32:$stage, Tile_AnyPtr:$ptr, Optional<Tile_AnyMask>:$mask,
                       DefaultValuedAttr<Tile_CacheModifierAttr, "::tessera::tile::CacheModifier::NONE">:$cache,
                       DefaultValuedAttr<Tile_EvictionAttr, "::tessera::tile::Eviction::NORMAL">:$evict);
  let assemblyFormat = "$buffer `[` $stage `]` `,` $ptr (`mask` $mask^ `:` type($mask))? attr-dict `:` type($buffer) `,` type($ptr)";
}
def Tile_SharedCommitOp : Tile_Op<"shared_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends a group of copies";
  let assemblyFormat = "attr-dict";
}
def Tile_SharedWaitOp : Tile_Op<"shared_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of the latest groups are unfinished, then for all threads";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}
def Tile_SharedDotOp : Tile_Op<"shared_dot", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "tile.dot whose operands are staged in shared memory; a may be in registers instead";
  let description = [{
    `*_transposed`: the stage holds the transpose of the operand. `asynchronous` (wgmma): the result may be used only behind
    tile.dot_wait, except as `c` of the next one.
  }];
  let arguments = (ins Optional<Tile_Tensor>:$a, Optional<Tile_Shared>:$a_buffer, Optional<I32>:$a_stage, Tile_Shared:$b_buffer,
                       I32:$b_stage, Tile_Tensor:$c, Tile_PrecisionAttr:$precision, DefaultValuedAttr<I32Attr, "0">:$max_num_imprecise_acc,
                       UnitAttr:$a_transposed, UnitAttr:$b_transposed, UnitAttr:$asynchronous);
  let results = (outs Tile_Tensor:$result);
}
def Tile_DotWaitOp : Tile_Op<"dot_wait", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["source", "result"]>]> {
  let summary = "waits until at most `pending` asynchronous products are unfinished; passes an accumulator through";
  let arguments = (ins I32Attr:$pending, Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$pending `,` $source attr-dict `:` type($source)";
}

//===-- calls, hints, checks --------------------------------------------------------------------===//

def Tile_ExternOp : Tile_Op<"extern", [Pure]> {
  let summary = "elementwise call of a math function by its libdevice name (\"__nv_tanhf\")";
  let arguments = (ins Variadic<Tile_Any>:$operands, StrAttr:$symbol);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = "$symbol `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
}
def Tile_InlineAsmOp : Tile_Op<"inline_asm", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "elementwise inline PTX; `pack` elements a time";
  let arguments = (ins Variadic<Tile_Any>:$operands, StrAttr:$asm_text, StrAttr:$constraints, BoolAttr:$is_pure, I32Attr:$pack);
  let results = (outs Variadic<Tile_Any>:$result);
  let assemblyFormat = "$asm_text `,` $constraints `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
}
def Tile_HintOp : Tile_Op<"hint", [Pure, SameOperandsAndResultType]> {
  let summary = "the same value, with promises about it, one entry a dimension (one for scalars)";
  let description = [{
    `divisibility`: the first element of each contiguous run is a multiple (bytes for pointers). `contiguity`: length of
    runs of consecutive values. `constancy`: length of runs of equal values. The interpreter checks them.
  }];
  let arguments = (ins Tile_Any:$source, OptionalAttr<DenseI64ArrayAttr>:$divisibility,
                       OptionalAttr<DenseI64ArrayAttr>:$contiguity, OptionalAttr<DenseI64ArrayAttr>:$constancy);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}
def Tile_AssumeOp : Tile_Op<"assume", [MemoryEffects<[MemWrite]>]> {
  let summary = "promises that a scalar condition holds; the interpreter checks it";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}
def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "stops the launch with `message` if a lane is false (tl.device_assert)";
  let arguments = (ins Tile_AnyMask:$condition, Optional<Tile_AnyMask>:$mask, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message (`mask` $mask^ `:` type($mask))? attr-dict `:` type($condition)";
  let hasVerifier = 1;
}
def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "prints a prefix and values, lane by lane (tl.device_print)";
  let arguments = (ins StrAttr:$prefix, BoolAttr:$hex, Variadic<Tile_Any>:$operands, DenseBoolArrayAttr:$is_unsigned);
  let assemblyFormat = "$prefix `(` $operands `)` attr-dict `:` type($operands)";
  let hasVerifier = 1;
}

#endif
