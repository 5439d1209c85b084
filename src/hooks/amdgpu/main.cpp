#include "hooks/amdgpu/program.hpp"

int main(int argc, char** argv) {
    return sarus::hooks::hookMain(argc, argv, sarus::hooks::amdgpu::program());
}
