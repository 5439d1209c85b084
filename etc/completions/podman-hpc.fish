# fish completion for podman-hpc: ours and that of the installed Podman
podman-hpc completion fish 2>/dev/null | source
