#include "spank/sarus_call.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/installation_prefix.hpp"
#include "base/text.hpp"

namespace sarus::spank {

std::string sarusPath() {
    return installationPrefix() + "/bin/sarus";
}

DefinitionFile::DefinitionFile(const std::string& text) {
    if (!text.empty()) {
        file = UniqueFd(checkErrno(::memfd_create("environment-definition", 0),
                                   "Failed to pass on the environment definition"));
        writeAll(file.get(), text, "the environment definition");
        checkErrno(::lseek(file.get(), 0, SEEK_SET), "Failed to pass on the environment definition");
    }
}

std::string DefinitionFile::path() const {
    return cat("/dev/fd/", file.get());
}

AllCpus::AllCpus() {
    ::sched_getaffinity(0, sizeof before, &before);
    cpu_set_t all;
    std::memset(&all, 0xFF, sizeof all);  // the kernel keeps to those of the control group
    ::sched_setaffinity(0, sizeof all, &all);
}

AllCpus::~AllCpus() {
    ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace sarus::spank
