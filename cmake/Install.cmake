# Everything below the prefix besides the programs. sarus.json itself is written by configure_installation.sh.

install(PROGRAMS configure_installation.sh DESTINATION .)
install(PROGRAMS scripts/update-passwd-cache DESTINATION libexec)
install(FILES etc/policy.json DESTINATION etc)
install(DIRECTORY etc/container etc/templates DESTINATION etc)
install(DIRECTORY etc/hooks.d DESTINATION etc)

file(GLOB schemas CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/etc/*.schema.json")
install(FILES ${schemas} DESTINATION etc)

# The documented place of OCI bundles; runtime state below it is never part of an installation.
install(DIRECTORY DESTINATION var/OCIBundleDir DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION share/doc/sarus)
install(DIRECTORY docs/ DESTINATION share/doc/sarus/docs FILES_MATCHING PATTERN "*.md")
