#include "hooks/ldcache/program.hpp"

int main(int argc, char** argv) {
    return sarus::hooks::hookMain(argc, argv, sarus::hooks::ldcache::program());
}
