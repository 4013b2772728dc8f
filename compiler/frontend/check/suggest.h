// "; did you mean 'x'?" for messages about unknown names.
#ifndef TESSERA_COMPILER_FRONTEND_CHECK_SUGGEST_H_
#define TESSERA_COMPILER_FRONTEND_CHECK_SUGGEST_H_

#include <string>
#include <vector>

namespace tessera::frontend {

// The candidate nearest to `name` by edits, as a clause for the end of a message; "" if none is near.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace tessera::frontend

#endif  // TESSERA_COMPILER_FRONTEND_CHECK_SUGGEST_H_
