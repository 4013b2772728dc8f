// The simt dialect: types, attributes and enums.
#ifndef TESSERA_SIMT_DIALECT_TD
#define TESSERA_SIMT_DIALECT_TD

include "mlir/IR/DialectBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Simt_Dialect : Dialect {
  let name = "simt";
  let cppNamespace = "::tessera::simt";
  let summary = "What one thread of a block (CTA) of a GPU does.";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::tessera::tile::TileDialect"];
}

def Simt_Buffer : TypeDef<Simt_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a piece of the block's shared memory";
  let description = "Made by simt.alloc_shared only; never passed through control flow, so that analyses see each access's buffer.";
}

class Simt_Enum<string n, string s, list<I32EnumAttrCase> cases> : I32EnumAttr<n, s, cases> {
  let cppNamespace = "::tessera::simt";
  let genSpecializedAttr = 0;
}
class Simt_EnumAttr<EnumAttrInfo e, string m> : EnumAttr<Simt_Dialect, e, m> {
  let assemblyFormat = "$value";
}

def Simt_ShuffleKind : Simt_Enum<"ShuffleKind", "which lane a shuffle reads", [
  I32EnumAttrCase<"XOR", 0, "xor">, I32EnumAttrCase<"INDEX", 1, "index">,
  I32EnumAttrCase<"UP", 2, "up">, I32EnumAttrCase<"DOWN", 3, "down">]>;
def Simt_ShuffleKindAttr : Simt_EnumAttr<Simt_ShuffleKind, "shuffle_kind">;

// Element types of matrix instructions, by their PTX names.
def Simt_MatrixType : Simt_Enum<"MatrixType", "element type of a matrix instruction", [
  I32EnumAttrCase<"F16", 0, "f16">, I32EnumAttrCase<"BF16", 1, "bf16">, I32EnumAttrCase<"TF32", 2, "tf32">,
  I32EnumAttrCase<"E4M3", 3, "e4m3">, I32EnumAttrCase<"E5M2", 4, "e5m2">, I32EnumAttrCase<"S8", 5, "s8">,
  I32EnumAttrCase<"U8", 6, "u8">, I32EnumAttrCase<"F64", 7, "f64">]>;
def Simt_MatrixTypeAttr : Simt_EnumAttr<Simt_MatrixType, "matrix_type">;

// Swizzles of the matrix descriptors of wgmma (PTX ISA, "Shared Memory Matrix Layout").
def Simt_Swizzle : Simt_Enum<"Swizzle", "swizzle of a matrix in shared memory", [
  I32EnumAttrCase<"NONE", 0, "none">, I32EnumAttrCase<"BYTES_32", 1, "b32">,
  I32EnumAttrCase<"BYTES_64", 2, "b64">, I32EnumAttrCase<"BYTES_128", 3, "b128">]>;
def Simt_SwizzleAttr : Simt_EnumAttr<Simt_Swizzle, "swizzle">;

def Simt_FailureKind : Simt_Enum<"FailureKind", "what a launch report tells", [
  I32EnumAttrCase<"ASSERT", 0, "assert">, I32EnumAttrCase<"ACCESS", 1, "access">]>;
def Simt_FailureKindAttr : Simt_EnumAttr<Simt_FailureKind, "failure_kind">;

#endif
