#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "fuzz_files.hpp"
#include "hooks/kit/soname_version.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void checkName(const LibraryName& name) {
    require(parseLibraryName(name.text()) == name);
    const auto links = name.linkNames();
    require(links.size() == name.version.size() + 1 && links.front() == name.linkerName &&
            links.back() == name.text());
    for (const auto policy : {AbiPolicy::major, AbiPolicy::full, AbiPolicy::strict}) {
        require((compareAbi(name, name, policy) == AbiMatch::compatible) == name.majorNumber().has_value());
    }
}

}  // namespace

/// The input's two pieces around a NUL character are names of libraries, the first one's link has the second
/// as its target. A name that was taken apart can be put together; a link never leads to another library or
/// to a contradicting version; a match under a stricter policy is one under the others.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto root = openFile(test::fuzz::scratchDirectory(), O_PATH | O_DIRECTORY);
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const std::string first(bytes.substr(0, bytes.find('\0')));
    const std::string second(bytes.substr(std::min(first.size() + 1, bytes.size())).substr(0, 300));
    const auto name = parseLibraryName(first);
    const auto other = parseLibraryName(second);
    if (name) {
        checkName(*name);
    }
    if (name && other) {
        if (compareAbi(*name, *other, AbiPolicy::strict) == AbiMatch::compatible) {
            require(compareAbi(*name, *other, AbiPolicy::full) == AbiMatch::compatible);
        }
        if (compareAbi(*name, *other, AbiPolicy::full) == AbiMatch::compatible) {
            require(compareAbi(*name, *other, AbiPolicy::major) == AbiMatch::compatible);
        }
    }
    if (!name || first.find('/') != std::string::npos) {
        return 0;
    }
    const auto cString = std::string(second.c_str());
    if (::symlinkat(cString.c_str(), root.get(), first.c_str()) == 0) {
        const auto resolved = resolveLibraryName(root.get(), cat('/', first));
        require(resolved && resolved->linkerName == name->linkerName &&
                resolved->version.size() >= name->version.size());
        require(std::equal(name->version.begin(), name->version.end(), resolved->version.begin()));
        ::unlinkat(root.get(), first.c_str(), 0);
    }
    return 0;
}
