#include "spank/sarus_call.hpp"

#include <cstring>

#include "base/descriptors.hpp"
#include "base/file_io.hpp"
#include "base/installation_prefix.hpp"
#include "base/text.hpp"

namespace sarus::spank {

std::string sarusPath() {
    return installationPrefix() + "/bin/sarus";
}

DefinitionFile::DefinitionFile(const std::string& text) {
    if (!text.empty()) {
        file = makeMemoryFile("environment-definition", text);
        passOn(file.get());
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
