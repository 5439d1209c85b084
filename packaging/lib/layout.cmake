# Where the files of an install component are in a package of the system: Sarus is in /usr/lib/sarus with its settings in /etc/sarus, and podman-hpc in
# /usr. For deb (packaging/debian/finish.cmake) and rpm (packaging/rpm/stage.cmake).

# move(FROM TO): below the root of the component.
function(move from to)
    if(EXISTS "${root}/${from}")
        get_filename_component(parent "${root}/${to}" DIRECTORY)
        file(MAKE_DIRECTORY "${parent}")
        file(RENAME "${root}/${from}" "${root}/${to}")
    endif()
endfunction()

function(move_into_own_directory)
    foreach(name IN ITEMS bin libexec lib/slurm dropbear configure_installation.sh)
        move(usr/${name} usr/lib/sarus/${name})
    endforeach()
    move(usr/etc etc/sarus)
    move(usr/var var/lib/sarus)
endfunction()

# Packages have their final place, so the hook of modules can be registered with it.
function(register_hook)
    set(directory "${root}/usr/share/containers/oci/hooks.d")
    execute_process(COMMAND ${CPACK_SARUS_EMULATOR} "${root}/usr/bin/podman-hpc" configure-hooks --hooksd "${directory}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    file(READ "${directory}/02-hook_tool.json" text)
    string(REPLACE "${root}" "" text "${text}")
    file(WRITE "${directory}/02-hook_tool.json" "${text}")
endfunction()

# sarus_lay_out(ROOT COMPONENT): ROOT/usr is the prefix to which the component was installed.
function(sarus_lay_out root component)
    if(component STREQUAL "podman-hpc")
        register_hook()
    else()
        move_into_own_directory()
    endif()
    if(component STREQUAL "hooks")  # the documentation types their names
        file(GLOB programs RELATIVE "${root}/usr/lib/sarus/bin" "${root}/usr/lib/sarus/bin/*_hook")
        file(MAKE_DIRECTORY "${root}/usr/bin")
        foreach(program IN LISTS programs)
            file(CREATE_LINK ../lib/sarus/bin/${program} "${root}/usr/bin/${program}" SYMBOLIC)
        endforeach()
    endif()
    if(component STREQUAL "sarus")
        file(REMOVE "${root}/etc/sarus/templates/modulefile.in")  # everybody has /usr/bin in PATH
        file(REMOVE "${root}/usr/share/doc/sarus/LICENSE")  # each kind of package has its own place for it
        set(system "${CPACK_SARUS_SOURCE_DIR}/packaging/lib/system")
        configure_file("${system}/modules-load.conf" "${root}/usr/lib/modules-load.d/sarus.conf" COPYONLY)
        foreach(unit IN ITEMS sarus-passwd-cache.service sarus-passwd-cache.timer)
            configure_file("${system}/${unit}" "${root}/usr/lib/systemd/system/${unit}" COPYONLY)
        endforeach()
        file(MAKE_DIRECTORY "${root}/usr/bin")
        file(CREATE_LINK ../lib/sarus/bin/sarus "${root}/usr/bin/sarus" SYMBOLIC)
        file(CREATE_LINK /etc/sarus "${root}/usr/lib/sarus/etc" SYMBOLIC)
        file(CREATE_LINK /var/lib/sarus "${root}/usr/lib/sarus/var" SYMBOLIC)
    endif()
endfunction()
