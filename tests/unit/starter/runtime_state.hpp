#pragma once

#include <string>

#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "starter/supervise/running_container.hpp"

namespace sarus::test {

/// The state that crun keeps of a container, below the runtime's root. `first`: its first process.
inline void writeRuntimeState(const std::string& runtimeRoot, const std::string& name, pid_t first,
                              std::uint64_t started) {
    createDirectories(cat(runtimeRoot, '/', name));
    replaceFile(starter::runtimeStateFile(engine::OciRuntime::crun, runtimeRoot, name),
                cat(R"({"pid": )", first, R"(, "process-start-time": )", started, "}"), 0600);
}

}  // namespace sarus::test
