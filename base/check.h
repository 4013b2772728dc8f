// TESSERA_CHECK: stops the process when our own invariant is broken, with a sentence that says which.
#ifndef TESSERA_BASE_CHECK_H_
#define TESSERA_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define TESSERA_CHECK(condition, sentence)                                                   \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, sentence, #condition);    \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // TESSERA_BASE_CHECK_H_
