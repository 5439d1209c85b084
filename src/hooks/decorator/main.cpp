#include "hooks/decorator/program.hpp"

int main(int argc, char** argv) {
    return sarus::hooks::hookMain(argc, argv, sarus::hooks::decorator::program());
}
