#pragma once

#include <sched.h>

#include <string>

#include "base/unique_fd.hpp"

namespace sarus::spank {

/// `sarus` of the installation that this program belongs to.
std::string sarusPath();

/// The text of an environment definition as a file that `sarus` inherits. Throws Error.
class DefinitionFile {
public:
    explicit DefinitionFile(const std::string& text);
    int fd() const { return file.get(); }  ///< -1 without a definition
    std::string path() const;

private:
    UniqueFd file;
};

/// As long as this exists, `sarus` may use all CPUs of the step, which can convert an image. Slurm may have
/// bound this task to one, and the others wait.
class AllCpus {
public:
    AllCpus();
    AllCpus(const AllCpus&) = delete;
    AllCpus& operator=(const AllCpus&) = delete;
    ~AllCpus();

private:
    cpu_set_t before{};
};

}  // namespace sarus::spank
