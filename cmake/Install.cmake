# Everything below the prefix besides the programs. sarus.json itself is written by configure_installation.sh.

# The components are those of the packages: sarus, hooks, slurm and podman-hpc.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME sarus)
install(PROGRAMS configure_installation.sh DESTINATION .)
install(PROGRAMS scripts/update-passwd-cache DESTINATION libexec)
install(PROGRAMS scripts/check-node DESTINATION share/sarus)
sarus_install_settings(etc etc sarus policy.json container/nsswitch.conf)
install(DIRECTORY etc/templates DESTINATION etc PATTERN hooks.d EXCLUDE PATTERN modulefile.in EXCLUDE)
set(INSTALL_PATH "@INSTALL_PATH@")  # which configure_installation.sh fills in
configure_file(etc/templates/modulefile.in "${CMAKE_BINARY_DIR}/modulefile.in" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/modulefile.in" DESTINATION etc/templates)
install(DIRECTORY etc/templates/hooks.d DESTINATION etc/templates COMPONENT hooks)
install(DIRECTORY etc/hooks.d DESTINATION etc)

# Programs of the processor's older instruction set are filtered like its own ones; those of others would be killed.
set(SARUS_SECCOMP_ARCHITECTURES "")  # the native one alone
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    set(SARUS_SECCOMP_ARCHITECTURES "\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_X86\"")
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(SARUS_SECCOMP_ARCHITECTURES "\"SCMP_ARCH_AARCH64\", \"SCMP_ARCH_ARM\"")
endif()
set(SARUS_SECCOMP_UNSHARE_USER [[        {
            "comment": "CLONE_NEWUSER",
            "names": ["unshare"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 1,
            "args": [{ "index": 0, "value": 268435456, "valueTwo": 268435456, "op": "SCMP_CMP_MASKED_EQ" }]
        },]])
configure_file(etc/seccomp/default.json.in "${CMAKE_BINARY_DIR}/seccomp/default.json" @ONLY)
set(SARUS_SECCOMP_UNSHARE_USER [[        {
            "comment": "Rootless containers of runc start so. Alone it gives nothing, as mounts and other namespaces are refused",
            "names": ["unshare"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{ "index": 0, "value": 268435456, "op": "SCMP_CMP_EQ" }]
        },]])
configure_file(etc/seccomp/default.json.in "${CMAKE_BINARY_DIR}/seccomp/rootless.json" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/seccomp/default.json" "${CMAKE_BINARY_DIR}/seccomp/rootless.json"
        DESTINATION etc/seccomp)

install(FILES etc/definitions.schema.json etc/hook.schema.json DESTINATION etc)

# The documented place of OCI bundles; runtime state below it is never part of an installation.
install(DIRECTORY DESTINATION var/OCIBundleDir DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION share/doc/sarus)
install(DIRECTORY docs/ DESTINATION share/doc/sarus/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")

file(GLOB pages CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/docs/man/*.1")
list(FILTER pages EXCLUDE REGEX "/(podman[-_]hpc[^/]*|fuse-overlayfs-wrap)\\.1$")
set(completedPages "${CMAKE_SOURCE_DIR}/docs/man/sarus.1" "${CMAKE_SOURCE_DIR}/docs/man/sarus.json.5")
list(REMOVE_ITEM pages ${completedPages})
set(hookPages ${pages})
list(FILTER hookPages INCLUDE REGEX "_hook\\.1$")
list(REMOVE_ITEM pages ${hookPages})
set(slurmPage "${CMAKE_SOURCE_DIR}/docs/man/sarus-slurm.1")
list(REMOVE_ITEM pages "${slurmPage}")
install(FILES ${pages} DESTINATION share/man/man1)
install(FILES ${hookPages} DESTINATION share/man/man1 COMPONENT hooks)
install(FILES "${slurmPage}" DESTINATION share/man/man1 COMPONENT slurm)
install(FILES docs/man/edf.5 DESTINATION share/man/man5)

# The tables of the program give the shell completions, the JSON schema of sarus.json and parts of two manual pages.
# sarus_prints(FILE ARGUMENTS...): FILE of the build tree is what `sarus ARGUMENTS...` prints.
set(printed "")
macro(sarus_prints file)
    add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/${file}" COMMAND sarus ${ARGN} > "${CMAKE_BINARY_DIR}/${file}"
        DEPENDS sarus ${completedPages} VERBATIM)
    list(APPEND printed "${CMAKE_BINARY_DIR}/${file}")
endmacro()
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/completions" "${CMAKE_BINARY_DIR}/etc" "${CMAKE_BINARY_DIR}/man")

sarus_prints(etc/sarus.schema.json reference schema)
foreach(shell IN ITEMS bash zsh fish)
    sarus_prints(completions/${shell} completion ${shell})
endforeach()
foreach(page IN ITEMS sarus.1 sarus.json.5)
    sarus_prints(man/${page} reference manual "${CMAKE_SOURCE_DIR}/docs/man/${page}")
endforeach()
add_custom_target(printed ALL DEPENDS ${printed})
install(FILES "${CMAKE_BINARY_DIR}/etc/sarus.schema.json" DESTINATION etc)
install(FILES "${CMAKE_BINARY_DIR}/completions/bash" DESTINATION share/bash-completion/completions RENAME sarus)
install(FILES "${CMAKE_BINARY_DIR}/completions/zsh" DESTINATION share/zsh/site-functions RENAME _sarus)
install(FILES "${CMAKE_BINARY_DIR}/completions/fish" DESTINATION share/fish/vendor_completions.d RENAME sarus.fish)
install(FILES "${CMAKE_BINARY_DIR}/man/sarus.1" DESTINATION share/man/man1)
install(FILES "${CMAKE_BINARY_DIR}/man/sarus.json.5" DESTINATION share/man/man5)

# podman-hpc: cmake --install BUILD --component podman-hpc
if(ENABLE_PODMAN_HPC)
    set(component COMPONENT podman-hpc)
    # The prefix is known at installation: /etc/podman_hpc belongs to /usr.
    install(CODE [[
        set(SARUS_PODMAN_HPC_ETC etc)
        if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
            set(SARUS_PODMAN_HPC_ETC ../etc)
        endif()
    ]] ${component})
    file(GLOB_RECURSE settings RELATIVE "${CMAKE_SOURCE_DIR}/etc/podman_hpc" CONFIGURE_DEPENDS etc/podman_hpc/*)
    sarus_install_settings(etc/podman_hpc "\${SARUS_PODMAN_HPC_ETC}/podman_hpc" podman-hpc ${settings})
    # The reference's name of the hook.
    file(CREATE_LINK podman_hpc_hook "${CMAKE_BINARY_DIR}/hook_tool" SYMBOLIC)
    file(CREATE_LINK podman_hpc_hook.1 "${CMAKE_BINARY_DIR}/hook_tool.1" SYMBOLIC)
    install(FILES "${CMAKE_BINARY_DIR}/hook_tool" DESTINATION bin ${component})
    install(FILES docs/man/podman-hpc.1 docs/man/podman_hpc_hook.1 "${CMAKE_BINARY_DIR}/hook_tool.1" docs/man/fuse-overlayfs-wrap.1 DESTINATION share/man/man1 ${component})
    install(FILES docs/man/podman_hpc.yaml.5 DESTINATION share/man/man5 ${component})
    install(FILES etc/completions/podman-hpc.bash DESTINATION share/bash-completion/completions RENAME podman-hpc ${component})
    install(FILES etc/completions/podman-hpc.zsh DESTINATION share/zsh/site-functions RENAME _podman-hpc ${component})
    install(FILES etc/completions/podman-hpc.fish DESTINATION share/fish/vendor_completions.d ${component})
    # An installation can be moved, and the hook's file has the path of its program.
    install(CODE [[
        set(hook share/containers/oci/hooks.d/02-hook_tool.json)
        if(NOT DEFINED ENV{DESTDIR} AND NOT EXISTS "${CMAKE_INSTALL_PREFIX}/${hook}")
            message(STATUS "Register the hook of podman-hpc, or modules copy and bind nothing: ${CMAKE_INSTALL_PREFIX}/bin/podman-hpc configure-hooks")
        endif()
    ]] ${component})
endif()
