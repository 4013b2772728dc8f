#!/usr/bin/env bash
# `tessera compile`: every stage as text, kept in a folder, and put back in after an edit.
set -euo pipefail
export TMPDIR=$TEST_TMPDIR
tessera=client/cli/tessera
has() { grep -c -- "$1" >/dev/null; }
fail() { echo "FAILED: $*"; exit 1; }
add=(tests/integration/kernels/fused.py:add --signature 'x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n=i32' --constexpr BLOCK=256)

for stage in ast tile tile_cpu plan loops llvm_dialect llvm asm object metadata; do
  $tessera compile "${add[@]}" --emit $stage -o "$TEST_TMPDIR/out.$stage"
  [ -s "$TEST_TMPDIR/out.$stage" ] || [ $stage = plan ] || fail "--emit $stage is empty"
done
for stage in ast tile object metadata; do
  $tessera compile "${add[@]}" --target interpreter --emit $stage | has . || fail "interpreter: --emit $stage is empty"
done
for stage in layout ptx sass; do
  $tessera compile "${add[@]}" --emit $stage >out.txt 2>err.txt && fail "the cpu has no stage $stage"
  grep -q "target cpu has no stage '$stage'; it has: ast, tile, .*llvm, asm, object, metadata" err.txt || fail "what is there instead of $stage: $(cat err.txt)"
  [ ! -s out.txt ] || fail "a stage that does not exist prints nothing"
done
status=0; $tessera compile "${add[@]}" --emit frob 2>/dev/null || status=$?
[ $status = 2 ] || fail "an unknown stage is wrong usage"
$tessera compile "${add[@]}" --emit metadata --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["kernel"] == "add"'

# A folder that does not exist yet; the same bytes as --emit.
$tessera compile "${add[@]}" --dump-dir "$TEST_TMPDIR/dump/new" -o /dev/null
for stage in ast tile tile_cpu plan loops llvm_dialect llvm asm object; do
  cmp "$TEST_TMPDIR/dump/new/add.$stage" "$TEST_TMPDIR/out.$stage" || fail "--dump-dir and --emit differ in $stage"
done

# Nothing edited: nothing replaced. One stage edited: everything after it is made from it.
$tessera compile "${add[@]}" --override-dir "$TEST_TMPDIR/dump/new" --emit object | cmp - "$TEST_TMPDIR/out.object" || fail "a dump that was not edited changes nothing"
for edit in 'tile s/arith.addf/arith.mulf/' 'tile_cpu s/arith.addf/arith.mulf/' 'loops s/arith.addf/arith.mulf/' 'llvm_dialect s/llvm.fadd/llvm.fmul/' 'llvm s/fadd/fmul/' 'asm s/addps/mulps/'; do
  rm -rf "$TEST_TMPDIR/edited" && cp -r "$TEST_TMPDIR/dump/new" "$TEST_TMPDIR/edited"
  sed -i "${edit#* }" "$TEST_TMPDIR/edited/add.${edit%% *}"
  $tessera compile "${add[@]}" --override-dir "$TEST_TMPDIR/edited" --emit asm >asm.txt || fail "an edited ${edit%% *}"
  grep -q mulps asm.txt || fail "the edit of ${edit%% *} did not arrive"
  grep -q addps asm.txt && fail "the edit of ${edit%% *} left an addition"
done
for broken in 'tile s/tile.load/tile.frob/' 'llvm s/fadd/frob/' 'asm s/addps/frobps/'; do
  rm -rf "$TEST_TMPDIR/edited" && cp -r "$TEST_TMPDIR/dump/new" "$TEST_TMPDIR/edited"
  sed -i "${broken#* }" "$TEST_TMPDIR/edited/add.${broken%% *}"
  $tessera compile "${add[@]}" --override-dir "$TEST_TMPDIR/edited" >/dev/null 2>err.txt && fail "a broken ${broken%% *}"
  grep -q "replaces stage '${broken%% *}'" err.txt || fail "the error names the stage: $(cat err.txt)"
done
rm -rf "$TEST_TMPDIR/edited" && cp -r "$TEST_TMPDIR/dump/new" "$TEST_TMPDIR/edited" && echo edited >>"$TEST_TMPDIR/edited/add.ast"
$tessera compile "${add[@]}" --override-dir "$TEST_TMPDIR/edited" 2>&1 >/dev/null | has "override of stage 'ast' is ignored" || fail "a stage that cannot be replaced is named"
$tessera compile "${add[@]}" --override-dir "$TEST_TMPDIR/nowhere" 2>err.txt && fail "an override folder without stages"
grep -q "holds no stage of add" err.txt || fail "the empty folder is named: $(cat err.txt)"

# Triton's variables.
TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR="$TEST_TMPDIR/triton" $tessera compile "${add[@]}" --emit tile >/dev/null 2>err.txt
[ "$(find "$TEST_TMPDIR/triton" -name 'add.tile' | wc -l)" = 1 ] && [ "$(find "$TEST_TMPDIR/triton" -name 'add.asm' | wc -l)" = 1 ] || fail "TRITON_KERNEL_DUMP"
product=(tests/integration/kernels/mistakes.py:product --signature 'x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16' --constexpr BLOCK=32)
$tessera compile "${product[@]}" --emit tile | has 'tile.dot.* tf32 ' || fail "fp32 products are tf32 by default"
TRITON_F32_DEFAULT=ieee $tessera compile "${product[@]}" --emit tile | has 'tile.dot.* ieee ' || fail "TRITON_F32_DEFAULT"
TRITON_INTERPRET=1 $tessera compile "${product[@]}" --emit metadata | has 'target: "interpreter"' || fail "TRITON_INTERPRET makes the interpreter the default target"
TRITON_INTERPRET=1 $tessera compile "${product[@]}" --emit metadata --target cpu | has 'target: "cpu"' || fail "a target that is named wins over TRITON_INTERPRET"
echo PASS
