// Apart from the rest of hook_config: hooks which need these names alone do not carry the pattern library.
#include "oci/hook_config.hpp"

namespace sarus::oci {

const std::vector<std::string>& hookStages() {
    static const std::vector<std::string> stages{
        std::string(kPrecreateStage), "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};
    return stages;
}

}  // namespace sarus::oci
