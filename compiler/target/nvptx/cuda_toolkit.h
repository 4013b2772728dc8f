// Where a CUDA toolkit's files may be.
#ifndef TESSERA_COMPILER_TARGET_NVPTX_CUDA_TOOLKIT_H_
#define TESSERA_COMPILER_TARGET_NVPTX_CUDA_TOOLKIT_H_

#include <string>
#include <vector>

namespace tessera::compiler {

// Folders of toolkits, best first: CUDA_HOME, CUDA_PATH, /usr/local/cuda, then /usr/local/cuda-* by falling version.
std::vector<std::string> CudaToolkits();

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_TARGET_NVPTX_CUDA_TOOLKIT_H_
