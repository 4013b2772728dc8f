// The tile dialect: types, attributes and enums.
#ifndef TESSERA_TILE_DIALECT_TD
#define TESSERA_TILE_DIALECT_TD

include "mlir/IR/DialectBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tessera::tile";
  let summary = "Operations of the Triton kernel language on blocks of static, power-of-two shape.";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

class Tile_Type<string n, string m, list<Trait> traits = []> : TypeDef<Tile_Dialect, n, traits> {
  let mnemonic = m;
}

def Tile_Ptr : Tile_Type<"Ptr", "ptr"> {
  let summary = "pointer to an element type in global memory (space 1)";
  let parameters = (ins "::mlir::Type":$pointee, DefaultValuedParameter<"int", "1">:$space);
  let assemblyFormat = "`<` $pointee (`,` $space^)? `>`";
  let skipDefaultBuilders = 0;
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
    return Base::get(pointee.getContext(), pointee, 1);
  }]>];
}

def Tile_Desc : Tile_Type<"Desc", "desc"> {
  let summary = "tensor descriptor: base, shape and strides of a strided tensor, read in blocks of one shape";
  let parameters = (ins ArrayRefParameter<"int64_t">:$blockShape, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` `[` $blockShape `]` `,` $elementType `>`";
}

def Tile_Layout : AttrDef<Tile_Dialect, "Layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "layout";
  let summary = "where the elements of a block live: the encoding of tensor types on the nvptx target";
  let description = [{
    The basis vectors of a LinearLayout (linear_layout.h), as row-major indices into the tensor: element at
    (register, lane, warp, block) = XOR of the bases of the bits that are set.
    `#tile.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128, 256]>` for tensor<512xf32>.
  }];
  let parameters = (ins ArrayRefParameter<"int32_t">:$registers, ArrayRefParameter<"int32_t">:$lanes,
                        ArrayRefParameter<"int32_t">:$warps, ArrayRefParameter<"int32_t">:$blocks);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static LayoutAttr get(::mlir::MLIRContext* context, const LinearLayout& layout);
    LinearLayout ToLinear(::llvm::ArrayRef<int64_t> shape) const;
  }];
}

def Tile_Shared : Tile_Type<"Shared", "shared"> {
  let summary = "blocks in shared memory: operands of matrix products, as `stages` copies of one 2-D block, or what tile.shared_put holds";
  let description = [{
    Dimension `fast` is contiguous. Rows along it are swizzled as the matrix descriptors of wgmma want them (128, 64 or 32
    bytes, by the extent); longer rows lie in panels of 128 bytes one behind the other. What tile.shared_put holds lies as
    its reader likes it.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType, "int":$fast, "int":$stages);
  let assemblyFormat = "`<` `[` $shape `]` `,` $elementType `,` `fast` `=` $fast `,` `stages` `=` $stages `>`";
}

class Tile_Enum<string n, string s, list<I32EnumAttrCase> cases> : I32EnumAttr<n, s, cases> {
  let cppNamespace = "::tessera::tile";
  let genSpecializedAttr = 0;
}
class Tile_EnumAttr<EnumAttrInfo e, string m> : EnumAttr<Tile_Dialect, e, m> {
  let assemblyFormat = "$value";
}

def Tile_CacheModifier : Tile_Enum<"CacheModifier", "cache modifier", [
  I32EnumAttrCase<"NONE", 0, "none">, I32EnumAttrCase<"CA", 1, "ca">, I32EnumAttrCase<"CG", 2, "cg">,
  I32EnumAttrCase<"WB", 3, "wb">, I32EnumAttrCase<"CS", 4, "cs">, I32EnumAttrCase<"WT", 5, "wt">,
  I32EnumAttrCase<"CV", 6, "cv">]>;
def Tile_CacheModifierAttr : Tile_EnumAttr<Tile_CacheModifier, "cache">;

def Tile_Eviction : Tile_Enum<"Eviction", "eviction policy", [
  I32EnumAttrCase<"NORMAL", 0, "normal">, I32EnumAttrCase<"FIRST", 1, "evict_first">,
  I32EnumAttrCase<"LAST", 2, "evict_last">]>;
def Tile_EvictionAttr : Tile_EnumAttr<Tile_Eviction, "evict">;

def Tile_RmwKind : Tile_Enum<"RmwKind", "read-modify-write operation", [
  I32EnumAttrCase<"AND", 0, "and">, I32EnumAttrCase<"OR", 1, "or">, I32EnumAttrCase<"XOR", 2, "xor">,
  I32EnumAttrCase<"ADD", 3, "add">, I32EnumAttrCase<"FADD", 4, "fadd">,
  I32EnumAttrCase<"MAX", 5, "max">, I32EnumAttrCase<"MIN", 6, "min">,
  I32EnumAttrCase<"UMAX", 7, "umax">, I32EnumAttrCase<"UMIN", 8, "umin">,
  I32EnumAttrCase<"FMAX", 9, "fmax">, I32EnumAttrCase<"FMIN", 10, "fmin">,
  I32EnumAttrCase<"XCHG", 11, "xchg">]>;
def Tile_RmwKindAttr : Tile_EnumAttr<Tile_RmwKind, "rmw">;

def Tile_MemSem : Tile_Enum<"MemSem", "memory ordering", [
  I32EnumAttrCase<"RELAXED", 0, "relaxed">, I32EnumAttrCase<"ACQUIRE", 1, "acquire">,
  I32EnumAttrCase<"RELEASE", 2, "release">, I32EnumAttrCase<"ACQ_REL", 3, "acq_rel">]>;
def Tile_MemSemAttr : Tile_EnumAttr<Tile_MemSem, "sem">;

def Tile_MemScope : Tile_Enum<"MemScope", "memory scope", [
  I32EnumAttrCase<"CTA", 0, "cta">, I32EnumAttrCase<"GPU", 1, "gpu">, I32EnumAttrCase<"SYS", 2, "sys">]>;
def Tile_MemScopeAttr : Tile_EnumAttr<Tile_MemScope, "scope">;

def Tile_Precision : Tile_Enum<"Precision", "precision of the products of a dot on fp32 operands", [
  I32EnumAttrCase<"IEEE", 0, "ieee">, I32EnumAttrCase<"TF32", 1, "tf32">,
  I32EnumAttrCase<"TF32X3", 2, "tf32x3">, I32EnumAttrCase<"BF16X3", 3, "bf16x3">,
  I32EnumAttrCase<"BF16X6", 4, "bf16x6">]>;
def Tile_PrecisionAttr : Tile_EnumAttr<Tile_Precision, "precision">;

def Tile_Rounding : Tile_Enum<"Rounding", "rounding of a float narrowing", [
  I32EnumAttrCase<"RTNE", 0, "rtne">, I32EnumAttrCase<"RTZ", 1, "rtz">]>;
def Tile_RoundingAttr : Tile_EnumAttr<Tile_Rounding, "rounding">;

#endif
