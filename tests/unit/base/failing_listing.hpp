#pragma once

// Include this in only one file of a test program: it replaces a function of the C library.

#include <dirent.h>
#include <dlfcn.h>

#include <cerrno>

namespace sarus::test {

/// While it lives, directories can be opened, but to read them fails, after a number of entries.
class FailingListing {
public:
    FailingListing(int errnum, int afterEntries) {
        reason = errnum;
        left = afterEntries;
    }
    FailingListing(const FailingListing&) = delete;
    FailingListing& operator=(const FailingListing&) = delete;
    ~FailingListing() { reason = 0; }

    static inline int reason = 0;
    static inline int left = 0;
};

}  // namespace sarus::test

/// Stands before that of the C library, for the program's own code and for other libraries.
dirent* readdir(DIR* stream) {
    using Failing = sarus::test::FailingListing;
    if (Failing::reason != 0 && Failing::left-- <= 0) {
        errno = Failing::reason;
        return nullptr;
    }
    static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir64"));
    return real(stream);
}
