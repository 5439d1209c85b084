profile sarus-test flags=(attach_disconnected,mediate_deleted) {
  file,
  signal,
  ptrace,
  unix,
  network,
  capability,
  deny /etc/os-release rw,
}
