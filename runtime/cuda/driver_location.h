// Where libcuda may be. No CUDA header: also for builds without one.
#ifndef TESSERA_RUNTIME_CUDA_DRIVER_LOCATION_H_
#define TESSERA_RUNTIME_CUDA_DRIVER_LOCATION_H_

#include <string>
#include <vector>

namespace tessera::runtime {

// In the order in which they are tried; a name without a slash is looked up by the loader.
// $TESSERA_LIBCUDA, where set, is the only one ("off": none).
std::vector<std::string> LibcudaCandidates();

// Whether one of them is a file, or is known to the loader. Opens nothing.
bool LibcudaIsInstalled();

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CUDA_DRIVER_LOCATION_H_
