// What the passes of the nvptx pipeline know about the launch and the GPU.
#ifndef TESSERA_COMPILER_ANALYSIS_LAYOUTS_GPU_OPTIONS_H_
#define TESSERA_COMPILER_ANALYSIS_LAYOUTS_GPU_OPTIONS_H_

namespace tessera::compiler {

struct GpuOptions {
  int num_warps = 4;   // warps of 32 threads in a block; a power of two up to 32
  int num_stages = 3;  // depth of software pipelines
  int sm = 80;         // compute capability, 90 for sm_90a
  bool wgmma = false;  // sm_90a alone
  bool guarded = false;  // every global access is checked against the extents of the bound buffers
  int shared_bytes = 101376;  // that one block may have
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_ANALYSIS_LAYOUTS_GPU_OPTIONS_H_
