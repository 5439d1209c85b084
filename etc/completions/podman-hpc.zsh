#compdef podman-hpc
# zsh completion for podman-hpc: ours and that of the installed Podman
eval "$(podman-hpc completion zsh 2>/dev/null)"
compdef _podman_hpc podman-hpc
[[ ${funcstack[1]} != _podman-hpc ]] || _podman_hpc "$@"
