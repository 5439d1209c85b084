#include "base/error.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace sarus {

Error::Error(std::string message, std::string hint) : hintText(std::move(hint)) {
    contexts.push_back(std::move(message));
    rebuild();
}

Error Error::fromErrno(std::string_view doing, int errnum, std::string hint) {
    std::string message(doing);
    message += ": ";
    message += std::strerror(errnum);
    Error error(std::move(message), std::move(hint));
    error.errorNumber = errnum;
    return error;
}

Error& Error::setErrnum(int errnum) {
    errorNumber = errnum;
    return *this;
}

Error& Error::addContext(std::string_view doing) {
    contexts.insert(contexts.begin(), std::string(doing));
    rebuild();
    return *this;
}

Error& Error::setHint(std::string hint) {
    hintText = std::move(hint);
    return *this;
}

Error& Error::addUsage(std::string line) {
    usageLines.push_back(std::move(line));
    return *this;
}

Error& Error::setId(std::string newName) {
    name = std::move(newName);
    return *this;
}

Error& Error::setExitStatus(int newStatus) {
    status = newStatus;
    return *this;
}

void Error::rebuild() {
    whole.clear();
    for (const auto& context : contexts) {
        if (!whole.empty()) {
            whole += ": ";
        }
        whole += context;
    }
}

void throwErrno(std::string_view doing) {
    throw Error::fromErrno(doing, errno);
}

}  // namespace sarus
