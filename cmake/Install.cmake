# Everything below the prefix besides the programs. sarus.json itself is written by configure_installation.sh.

install(PROGRAMS configure_installation.sh DESTINATION .)
install(PROGRAMS scripts/update-passwd-cache DESTINATION libexec)
install(FILES etc/policy.json DESTINATION etc)
install(DIRECTORY etc/container etc/templates DESTINATION etc)
install(DIRECTORY etc/hooks.d DESTINATION etc)

# Programs of the processor's older instruction set are filtered like its own ones; those of others would be killed.
set(SARUS_SECCOMP_ARCHITECTURES "")  # the native one alone
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    set(SARUS_SECCOMP_ARCHITECTURES "\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_X86\"")
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(SARUS_SECCOMP_ARCHITECTURES "\"SCMP_ARCH_AARCH64\", \"SCMP_ARCH_ARM\"")
endif()
configure_file(etc/seccomp/default.json.in "${CMAKE_BINARY_DIR}/seccomp/default.json" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/seccomp/default.json" DESTINATION etc/seccomp)

file(GLOB schemas CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/etc/*.schema.json")
install(FILES ${schemas} DESTINATION etc)

# The documented place of OCI bundles; runtime state below it is never part of an installation.
install(DIRECTORY DESTINATION var/OCIBundleDir DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION share/doc/sarus)
install(DIRECTORY docs/ DESTINATION share/doc/sarus/docs FILES_MATCHING PATTERN "*.md")

file(GLOB pages CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/docs/man/*.1")
install(FILES ${pages} DESTINATION share/man/man1)
install(FILES docs/man/sarus.json.5 DESTINATION share/man/man5)

# Completions come from the tables of the program itself.
set(completions)
foreach(shell IN ITEMS bash zsh fish)
    add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/completions/${shell}"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_BINARY_DIR}/completions"
        COMMAND $<TARGET_FILE:sarus> completion ${shell} > "${CMAKE_BINARY_DIR}/completions/${shell}"
        DEPENDS sarus VERBATIM)
    list(APPEND completions "${CMAKE_BINARY_DIR}/completions/${shell}")
endforeach()
add_custom_target(completions ALL DEPENDS ${completions})
install(FILES "${CMAKE_BINARY_DIR}/completions/bash" DESTINATION share/bash-completion/completions RENAME sarus)
install(FILES "${CMAKE_BINARY_DIR}/completions/zsh" DESTINATION share/zsh/site-functions RENAME _sarus)
install(FILES "${CMAKE_BINARY_DIR}/completions/fish" DESTINATION share/fish/vendor_completions.d RENAME sarus.fish)
