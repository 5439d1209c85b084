// Separate from hook_config.cpp: hooks that need only these names do not link the pattern library.
#include "oci/hooks/hook_config.hpp"

namespace sarus::oci {

const std::vector<std::string>& hookStages() {
    static const std::vector<std::string> stages{std::string(precreateStage),
                                                 "prestart",
                                                 "createRuntime",
                                                 "createContainer",
                                                 "startContainer",
                                                 "poststart",
                                                 "poststop"};
    return stages;
}

}  // namespace sarus::oci
