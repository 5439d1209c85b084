#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "container_root/user_tree.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::string_view usage =
    "Usage: mkhomedir_hook                              (an OCI hook: reads the container's state)\n"
    "       mkhomedir_hook --check                      (looks for mistakes in its configuration)\n"
    "       mkhomedir_hook --explain [--root=DIRECTORY] [--env=HOME=DIRECTORY]  (shows what it would do)\n"
    "\n"
    "Makes the home directory of the container's user in the container, with the files of its /etc/skel,\n"
    "and puts the container's HOME into its /etc/passwd.\n";

constexpr std::string_view skeleton = "/etc/skel";

/// The user's home directory, and what to change for it.
struct Plan {
    std::string home;                   ///< empty: there is none
    std::optional<std::string> passwd;  ///< the new text of /etc/passwd
    bool isMissing = false;
};

/// Reads the container's files as its user.
Plan makePlan(HookContext& context) {
    constexpr std::size_t largestPasswd = 16U << 20U;
    const auto ids = hook_contracts::findEnteredIds(context.config());
    const uid_t uid = ids ? ids->uid : context.config().user().uid;
    const int root = context.rootfs();
    const auto text = container_root::tryReadFileInRoot(root, "/etc/passwd", largestPasswd).value_or("");
    Plan plan{.home = context.containerVariable("HOME").value_or(""), .passwd = {}};
    if (plan.home.empty()) {
        const auto entry = findPasswdEntry(text, uid);
        plan.home = entry ? entry->home : "";
    }
    if (plan.home.empty()) {
        return plan;
    }
    if (plan.home.front() != '/' ||
        plan.home.find_first_of(std::string_view(":\n\0", 3)) != std::string::npos) {
        throw Error(cat("The home directory of the container's user cannot be '", printable(plan.home),
                        "': expected an absolute path without colon and line feed"));
    }
    plan.passwd = replaceHome(text, uid, plan.home);
    plan.isMissing = !container_root::tryFindInRoot(root, plan.home) && errno == ENOENT;
    return plan;
}

/// Whether the place is not the container's own, or not writable: the container may work nevertheless.
bool isNotOurs(const Error& error) {
    return error.errnum() == EROFS || error.errnum() == EXDEV || error.errnum() == EBUSY;
}

void attempt(const HookLogger& log, const std::function<void()>& change) {
    try {
        change();
    } catch (const Error& error) {
        if (!isNotOurs(error)) {
            throw;
        }
        log.warn(error.what());
    }
}

/// The directories above belong to whom those of the image do; the user gets the last one.
void makeHome(const container_root::Editor& editor, int root, const std::string& home,
              const HookContext& context, const HookLogger& log) {
    const auto owner = ownerOfNewFiles(context);
    const auto end = home.find_last_not_of('/') + 1;
    const auto path = home.substr(0, end);
    if (const auto above = directoryOf(path); above != "/") {
        editor.makeDirectory(above);
    }
    editor.makeDirectoryOf(owner.uid, owner.gid, path, 0700);
    // As the user: whatever is there by now, nothing is written that this user could not write.
    if (!container_root::copyTreeAsUser(root, skeleton, path, owner)) {
        log.warn(cat("Only a part of the container's ", skeleton,
                     " was copied: it has more than 1000 entries, 16 MiB or 8 levels"));
    }
    log.info(cat("Made the container's ", printable(path)));
}

void explain(const HookSetup&, const ExplainRequest& request) {
    const auto plan = makePlan(request.container());
    if (plan.passwd) {
        printLine(cat("home directory ", printable(plan.home), " in /etc/passwd"));
    }
    if (plan.isMissing) {
        printLine(cat("make ", printable(plan.home), " from /etc/skel"));
    }
    if (!plan.passwd && !plan.isMissing) {
        printLine(plan.home.empty() ? "nothing: the container's user has no home directory"
                                    : cat("nothing: ", printable(plan.home), " exists"));
    }
}

void runAsHook(const HookSetup&, HookContext& context, const HookLogger& log) {
    const auto plan = makePlan(context);
    const int root = context.rootfs();
    const container_root::Editor editor(root);
    if (plan.passwd) {
        attempt(log, [&] { editor.replaceFile("/etc/passwd", *plan.passwd, 0644); });
    }
    if (plan.isMissing) {
        attempt(log, [&] { makeHome(editor, root, plan.home, context, log); });
    }
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "mkhomedir_hook",
                     .logName = "mkhomedir hook",
                     .usage = usage,
                     .explain = explain,
                     .run = runAsHook});
}
