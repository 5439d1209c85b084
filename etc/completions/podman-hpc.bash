# bash completion for podman-hpc: ours and that of the installed Podman
# shellcheck shell=bash disable=SC1090
source <(podman-hpc completion bash 2>/dev/null)
