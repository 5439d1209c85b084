#include "cli/doctor/registry_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::cli::registry_names_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RegistryNames, AreThePrefixesAndLocationsOfRegistriesThatMayBeUsed) {
    EXPECT_THAT(registriesIn(R"(unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "docker.io"
location = "registry-1.docker.io"  # a comment
[[registry.mirror]]
location = "mirror.example.com"
insecure = true
[[registry]]
  location='registry.example.com:5000/project'
[[registry]]
prefix = "*.example.org"
location = "proxy.example.com"
[[registry]]
location = "blocked.example.com"
blocked = true # by the site
[aliases]
location = "no registry"
)"),
                ElementsAre("docker.io", "registry.example.com:5000/project", "proxy.example.com"));
    EXPECT_THAT(registriesIn(""), IsEmpty());
    EXPECT_THAT(registriesIn("[[registry]]\nlocation =\nprefix = \"\n"), IsEmpty());
}

}  // namespace
}  // namespace sarus::cli::registry_names_test
