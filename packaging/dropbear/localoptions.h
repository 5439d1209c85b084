/* How Dropbear is built for ssh_hook. It runs as the container's user and serves that user only. */

#define DEBUG_TRACE 5 /* -v prints debug messages, with DROPBEAR_TRACE2 in the environment all of them */

#define DROPBEAR_REEXEC 0 /* needs /proc */
#define DROPBEAR_SVR_PASSWORD_AUTH 0
#define DROPBEAR_CLI_PASSWORD_AUTH 0
#define DROPBEAR_DSS 0
#define DROPBEAR_X11FWD 1
#define DROPBEAR_SMALL_CODE 0
#define DO_MOTD 0

/* MPI launchers open many connections at once, mostly from one node. */
#define MAX_UNAUTH_PER_IP 256
#define MAX_UNAUTH_CLIENTS 256

#define DEFAULT_PATH "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
#define DEFAULT_ROOT_PATH DEFAULT_PATH

/* Files and variables of ssh_hook: src/hooks/ssh/container_files.hpp */
#define SFTPSERVER_PATH "/opt/oci-hooks/ssh/dropbear/bin/sftp-server"
#define DROPBEAR_PATH_SSH_PROGRAM "/opt/oci-hooks/ssh/dropbear/bin/dbclient"
#define LOGIN_ENVIRONMENT_PATH "/opt/oci-hooks/ssh/dropbear/login-environment"
#define LISTENERS_VARIABLE "SSH_HOOK_LISTENERS"
#define ONLY_HOST_KEY_VARIABLE "SSH_HOOK_HOST_KEY"
