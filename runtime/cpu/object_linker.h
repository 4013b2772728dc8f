// Links relocatable objects into this process. LLVM stays behind this header.
#ifndef TESSERA_RUNTIME_CPU_OBJECT_LINKER_H_
#define TESSERA_RUNTIME_CPU_OBJECT_LINKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::runtime {

// An object in memory, ready to run. Its memory is unmapped when the last `code` is gone.
struct LinkedObject {
  void* entry = nullptr;
  std::shared_ptr<void> code;
};

// Every object has a name space of its own: two objects may define the same symbol. Thread-safe. Linked objects may
// outlive the linker.
class ObjectLinker {
 public:
  static absl::StatusOr<std::unique_ptr<ObjectLinker>> Create();
  ~ObjectLinker();

  // INVALID_ARGUMENT: `object` is no relocatable ELF object for this machine. FAILED_PRECONDITION: it does not define
  // `entry_symbol`, or needs a symbol other than those of the C math library and memcpy and its like.
  absl::StatusOr<LinkedObject> Link(absl::string_view object, absl::string_view entry_symbol);

 private:
  struct Session;
  explicit ObjectLinker(std::shared_ptr<Session> session);
  std::shared_ptr<Session> session_;
};

}  // namespace tessera::runtime

#endif  // TESSERA_RUNTIME_CPU_OBJECT_LINKER_H_
