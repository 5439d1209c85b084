#include <algorithm>

#include "cli/command.hpp"

namespace sarus::cli {

const std::vector<Command>& commands() {
    static const std::vector<Command> all{completionCommand(), execCommand(),      helpCommand(), hooksCommand(),
                                          imagesCommand(),     inspectCommand(),   killCommand(), loadCommand(),
                                          pruneCommand(),      psCommand(),        pullCommand(), rmiCommand(),
                                          runCommand(),        sshKeygenCommand(), tagCommand(),  versionCommand()};
    return all;
}

const Command* findCommand(std::string_view name) {
    const auto found =
        std::find_if(commands().begin(), commands().end(), [&](const Command& command) { return command.name == name; });
    return found == commands().end() ? nullptr : &*found;
}

}  // namespace sarus::cli
